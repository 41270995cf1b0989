// SPDX-License-Identifier: Apache-2.0
// The process that outlives the agent of a host, and clears up after it.
#pragma once

#include <sys/types.h>

namespace rueda {

// Forks. The child returns as the agent, in a session of its own. The parent stays as the janitor: it takes
// in every process below the agent whose parent ends. When the agent has ended, for whatever reason, it ends
// all that is left of the job on this host, removes shared memory files of MPICH that nobody uses any more,
// and exits with the agent's status. It takes no signal but SIGKILL, and has a name of its own, so that
// `killall ruedarun` does not reach it. Throws std::system_error where it cannot fork.
//
// Returns the process number of the janitor.
pid_t leave_janitor_behind();

}  // namespace rueda
