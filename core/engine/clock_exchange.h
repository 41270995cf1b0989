// SPDX-License-Identifier: Apache-2.0
// Compares the clocks of the ranks over the control tree, at the start.
#pragma once

#include <deque>
#include <functional>
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

// Sleeps until a message may have come by `transport`, or the doorbell has rung since `heard`; some
// milliseconds at most, since whoever starts a job may have gone.
void wait_for_message(Transport& transport, EventCount& doorbell, std::uint32_t heard);

// The neighbours of a rank in the control tree.
struct ClockNeighbours {
  std::optional<Rank> parent;
  std::vector<Rank> children;
  bool on_this_host = true;  // all of them: they have the same clock
};

// Called by the background thread of every rank of the tree, after the bootstrap. Returns when the clock is
// known here and in the children, or after `expires`. Throws PeerGone when `lost` names a rank. It polls for
// other hosts, and sleeps for ranks of this one.
ClockExchange exchange_clocks(ClockNeighbours neighbours, Transport* transport, RuntimeState& shared,
                              Time expires, const std::function<std::vector<Rank>()>& lost);

}  // namespace rueda
