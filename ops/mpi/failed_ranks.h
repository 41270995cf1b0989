// SPDX-License-Identifier: Apache-2.0
// The failed ranks that MPI knows of: MPICH tells them by its extension; others say nothing.
#pragma once

#include <mpi.h>

namespace rueda {

// Those of the communicator that are known to have failed, in the order in which it was noticed. To be freed
// unless it is MPI_GROUP_EMPTY.
MPI_Group failed_ranks(MPI_Comm communicator);

}  // namespace rueda
