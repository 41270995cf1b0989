// SPDX-License-Identifier: Apache-2.0
// What Hydra sees of an agent.
#pragma once

#include <sys/types.h>

#include "launcher/system/descriptor.h"

namespace rueda {

// Hydra's proxy kills the process groups of all that it has started as soon as it loses mpiexec; an agent
// must outlive that, to clear up. So what Hydra starts stays in front and forks the agent into a session of
// its own. The front carries signals to the agent, ends with it, and dies with the proxy; the agent sees that
// its parent has changed.
struct Behind {
  pid_t front = 0;
  pid_t proxy = 0;
  Descriptor proxy_handle;  // a pidfd: names the proxy whatever happens to its number
};

// Returns in the agent only. Throws std::system_error when it cannot fork.
Behind go_behind_a_front();

}  // namespace rueda
