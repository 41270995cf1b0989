// SPDX-License-Identifier: Apache-2.0
// What the agent of ruedarun may see of a Runtime.
#pragma once

#include <string>
#include <vector>

#include "core/engine/runtime_components.h"

namespace rueda::ops {

// Lets the agent of this host read what the Runtime of these components records, and hear of stalls. Without
// an agent it does nothing. `group`: its name, empty for the job of init(); `ranks`: those that make it up,
// among those of the job; empty: all.
void show_record(RuntimeComponents& components, const std::string& group, const std::vector<Rank>& ranks);

// "0-3,9": runs of ranks in the order of the list; "-" of none.
std::string in_runs(const std::vector<Rank>& ranks);

}  // namespace rueda::ops
