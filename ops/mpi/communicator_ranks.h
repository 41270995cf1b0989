// SPDX-License-Identifier: Apache-2.0
// Communicators as lists of ranks, asked of MPI: rueda/mpi.h in librueda_mpi.
#pragma once

#include <mpi.h>

#include <vector>

#include "rueda/rank_set.h"
#include "rueda/types.h"

namespace rueda {

// As ranks_of() and ranks_of_split().
RankSet ranks_in(MPI_Comm communicator);
std::vector<std::vector<Rank>> ranks_in_split(MPI_Comm part);

}  // namespace rueda
