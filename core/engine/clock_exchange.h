// SPDX-License-Identifier: Apache-2.0
// Compares the clocks of the ranks over the control tree, at the start.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "core/control/messages/transport.h"
#include "core/control/scheduling/coordinator.h"
#include "core/engine/runtime_state.h"
#include "core/observe/clock_alignment.h"

namespace rueda {

// Purpose: how the comparison ended. A plain value.
struct ClockExchange {
  Status status;
  JobClock clock;
  std::deque<Envelope> early;  // what ranks that were done already sent: for the Negotiator
};

// Called by the background thread of every rank of the tree, after the roll call. Returns when the clock is
// known here and in the children, or after `expires`, or when a rank is lost.
ClockExchange exchange_clocks(std::optional<Rank> parent, std::vector<Rank> children, Transport* transport,
                              RuntimeState& shared, Time expires);

}  // namespace rueda
