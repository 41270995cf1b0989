// SPDX-License-Identifier: Apache-2.0
// A rank among processes started by an MPI launcher.
#pragma once

#include <vector>

#include "core/engine/runtime_components.h"

namespace rueda {

// Whether the program has initialised MPI itself. Loads no MPI to find out.
bool mpi_has_begun();

// Loads MPI, and begins it where the program has not. `ranks`: of MPI_COMM_WORLD, that make up the job;
// empty: all. Throws BackendError when MPI is not there, or cannot be used as Rueda needs it.
RuntimeComponents mpi_components(const Config& config, const std::vector<Rank>& ranks);

}  // namespace rueda
