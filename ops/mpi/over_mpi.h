// SPDX-License-Identifier: Apache-2.0
// A rank whose messages travel by MPI: mpi_components() in librueda_mpi.
#pragma once

#include <vector>

#include "core/engine/runtime_components.h"

namespace rueda {

// As mpi_components().
RuntimeComponents rank_over_mpi(const Config& config, const std::vector<Rank>& ranks);

}  // namespace rueda
