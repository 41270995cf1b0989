// SPDX-License-Identifier: Apache-2.0
// The sender and the receiver of messages.
#pragma once

#include <optional>

#include "rueda/rank_set.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: two ranks of a job and a direction. Each pair is a process set with an id of its own, which every
// rank knows without having been told. So no rank but the two takes part in a message. A plain value.
struct MessagePair {
  // Ids have room for the pairs of so many ranks.
  static constexpr Rank kMostRanks = 1 << 15;

  Rank source = 0;
  Rank destination = 0;

  // Nothing for a process set that has been made by init() or add_process_set().
  static std::optional<MessagePair> of(ProcessSetId id);
  ProcessSetId id() const;
  RankSet members() const;

  friend bool operator==(const MessagePair&, const MessagePair&) = default;
};

}  // namespace rueda
