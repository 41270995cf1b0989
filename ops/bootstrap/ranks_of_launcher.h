// SPDX-License-Identifier: Apache-2.0
// The ranks of a job that the program numbers, as ruedarun numbers its processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/engine/runtime_components.h"
#include "ops/bootstrap/address/agent_line.h"

namespace rueda {

// "JOB RANK": the job of ruedarun and this process there. Empty without an agent, and in an elastic job,
// which gives the number of a rank that has ended to another process.
std::string name_in_launcher(const AgentLine& line);

// `members`: the names of all ranks. The number of each at the launcher of this process, `own`; -1: it has
// another launcher or none, or another rank has the same number, as two processes that one rank has started.
std::vector<Rank> ranks_of_launcher(const std::string& own, const std::vector<std::string>& members);

// From now on `components` know from the agent how a lost rank has ended. All ranks tell each other their
// names for that, so each of them calls it.
void ask_agent_of_members(RuntimeComponents& components, AgentLine& line);

}  // namespace rueda
