// SPDX-License-Identifier: Apache-2.0
// How programs start Rueda.
#pragma once

#include <vector>

#include "core/base/types.h"

namespace rueda {

// Starts the default Runtime with what this process was launched for: settings from the environment
// (core/base/config.h), ranks from the launcher; without a launcher one rank. A second call before shutdown()
// does nothing. Throws InvalidArgument for a bad setting, BackendError when MPI cannot be used, PeerLost when
// ranks do not come within start_timeout. Their names are told, except while MPI itself starts: it begins
// only when the whole job is there, and does not say who is missing. A later init() then waits again.
//
// `process_sets`: lists of ranks, the same on every rank; process_sets() of core/process_set.h gives the sets
// made of them, with the ids 1, 2, ... Ranks that differ get Mismatch, and an impossible list
// InvalidArgument, in the same words on every rank; init() may then be called again. ops/mpi/communicator.h
// makes lists of MPI communicators.
//
// `ranks`: the job is those of all that were started, numbered in this order; each of them gives the same
// list. Empty: all. The others may make jobs of their own; the launcher's MPI begins when all have called
// init(), or MPI_Init(). A rank that is not in its list gets InvalidArgument.
void init(const std::vector<std::vector<Rank>>& process_sets = {}, const std::vector<Rank>& ranks = {});

}  // namespace rueda
