// SPDX-License-Identifier: Apache-2.0
// The functions that librueda finds in librueda_mpi.
#include "ops/mpi/communicator_ranks.h"
#include "ops/mpi/mpi_module.h"
#include "ops/mpi/over_mpi.h"
#include "rueda/version.h"

extern "C" const rueda::MpiModule* rueda_mpi_module() {
  static constexpr rueda::MpiModule kModule{
      rueda::kVersion, &rueda::rank_over_mpi,
      [](const void* communicator) { return rueda::ranks_in(*static_cast<const MPI_Comm*>(communicator)); },
      [](const void* part) { return rueda::ranks_in_split(*static_cast<const MPI_Comm*>(part)); }};
  return &kModule;
}
