// SPDX-License-Identifier: Apache-2.0
// The start of a job on one rank: bootstrap, connections, and one clock for all.
#pragma once

#include <deque>
#include <string>

#include "core/control/bootstrap/bootstrap.h"
#include "core/control/negotiation/tree.h"
#include "core/engine/runtime_components.h"
#include "core/engine/runtime_state.h"

namespace rueda {

// Purpose: how the start ended, and who is where. A plain value.
struct StartedJob {
  Welcome welcome;
  TreeNode node;               // of this rank in the control tree
  std::deque<Envelope> early;  // messages for the Negotiator that came before the clocks were compared

  // The process of a rank as errors name it: "process 12 on host a".
  std::string process_of(Rank rank) const;
};

// Waits until every rank is there. Called by the background thread.
StartedJob start_job(RuntimeComponents& components, RuntimeState& shared);

}  // namespace rueda
