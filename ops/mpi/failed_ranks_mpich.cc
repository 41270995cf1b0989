// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/failed_ranks.h"
#include "ops/mpi/mpi_check.h"

namespace rueda {

MPI_Group failed_ranks(MPI_Comm communicator) {
  MPI_Group failed = MPI_GROUP_EMPTY;
  check(MPIX_Comm_get_failed(communicator, &failed), "MPIX_Comm_get_failed");
  return failed == MPI_GROUP_NULL ? MPI_GROUP_EMPTY : failed;
}

}  // namespace rueda
