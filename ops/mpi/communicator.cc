// SPDX-License-Identifier: Apache-2.0
// In librueda, which knows the type MPI_Comm but links no MPI.
#include "rueda/mpi.h"

#include "ops/mpi/mpi_module.h"

namespace rueda {

RankSet ranks_of(MPI_Comm communicator) { return mpi_module().ranks_of(&communicator); }

std::vector<std::vector<Rank>> ranks_of_split(MPI_Comm part) { return mpi_module().ranks_of_split(&part); }

}  // namespace rueda
