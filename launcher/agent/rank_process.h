// SPDX-License-Identifier: Apache-2.0
// The process of a rank, as its agent starts and signals it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/system/signals.h"

namespace rueda {

// Only what MPI needs stays open beside the standard streams: Hydra leaves its own pipes open in the
// processes it starts, and a program that a rank leaves running would hold them.
void close_leaked_descriptors();

// Forks the rank into a process group of its own, with these signals; it dies with the agent. The agent's
// copies of what only the rank needs are closed: the standard streams, and the descriptors of PMI, whose end
// tells Hydra that the rank has ended. -1, with errno, when that cannot be done.
pid_t start_rank(const std::vector<std::string>& command, const SignalState& signals);

// Whether the process has a handler for the signal: one that has none would be killed by it.
bool catches(pid_t process, int signal);

}  // namespace rueda
