// SPDX-License-Identifier: Apache-2.0
// One process beside each rank, started by Hydra in the rank's place.
#pragma once

#include <string>
#include <vector>

namespace rueda {

// Puts what a rank needs into the environment, starts the rank as its child with the same group, streams and
// connection to Hydra, waits for it, leaves a note on how it ended, and ends the same way. Restarting ranks
// and watching survivors, when that is wanted, also belongs here: the agent is all that a rank's host has of
// ruedarun. Does not return when the rank was killed by a signal.
int run_agent(const std::vector<std::string>& command);

}  // namespace rueda
