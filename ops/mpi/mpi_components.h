// SPDX-License-Identifier: Apache-2.0
// A rank among processes started by an MPI launcher.
#pragma once

#include <optional>
#include <vector>

#include "core/engine/runtime_components.h"

namespace rueda {

// Nothing when this process was not started by an MPI launcher and has not initialised MPI itself: then MPI
// stays untouched. `ranks`: of MPI_COMM_WORLD, that make up the job; empty: all. Throws BackendError when MPI
// cannot be used as Rueda needs it.
std::optional<RuntimeComponents> mpi_components(const Config& config, const std::vector<Rank>& ranks);

}  // namespace rueda
