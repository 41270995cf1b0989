// SPDX-License-Identifier: Apache-2.0
// A rank among processes started by an MPI launcher.
#pragma once

#include <optional>

#include "core/engine/parts.h"

namespace rueda {

// Nothing when this process was not started by an MPI launcher and has not initialised MPI itself: then MPI
// stays untouched. Throws BackendError when MPI cannot be used as Rueda needs it.
std::optional<Parts> mpi_parts(const Config& config);

}  // namespace rueda
