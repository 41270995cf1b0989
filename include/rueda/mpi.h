// SPDX-License-Identifier: Apache-2.0
// MPI communicators as lists of ranks: for init(), and for add_process_set() at run time.
#pragma once

#include <mpi.h>

#include <vector>

#include "rueda/rank_set.h"
#include "rueda/types.h"

namespace rueda {

// Returns the ranks of the job that are in `communicator`. The communicator's order is left out: the ranks of
// a process set ascend. MPI must run (begun by the program or by rueda::init()). Throws InvalidArgument for
// MPI_COMM_NULL, an intercommunicator, and a communicator with a process that is not of MPI_COMM_WORLD.
// Throws BackendError while MPI does not run.
RankSet ranks_of(MPI_Comm communicator);

// The parts of a split, as MPI_Comm_split or MPI_Comm_split_type made it: one list for each communicator, in
// the order of their lowest ranks, the same on every rank. Every rank of MPI_COMM_WORLD calls it with its own
// part; one that has none gives MPI_COMM_NULL and is in no list. Throws InvalidArgument, in the same words on
// every rank, where the communicators are no such parts.
std::vector<std::vector<Rank>> ranks_of_split(MPI_Comm part);

}  // namespace rueda
