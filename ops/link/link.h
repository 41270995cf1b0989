// SPDX-License-Identifier: Apache-2.0
// Non-blocking messages between ranks: what every algorithm is written over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/bytes.h"
#include "core/control/messages/plan.h"
#include "rueda/rank_set.h"
#include "rueda/types.h"

namespace rueda {

using Tag = std::uint32_t;
using Ticket = std::uint64_t;  // of one send or receive, until done() or cancel()

// The Tag of a Plan's messages: Works that run at the same time have different ones.
inline Tag tag_of(std::uint64_t plan_number) { return static_cast<Tag>(plan_number % kPlansApart); }
// The same where a Plan has several runs of messages at a time: lane 0 is the one above.
inline Tag tag_of(std::uint64_t plan_number, std::size_t lane) {
  return static_cast<Tag>(plan_number % kPlansApart + lane * kPlansApart);
}

// Purpose: moves data between this rank and its peers. Messages of one tag between two ranks match in the
// order of posting; the bytes stay untouched until done. Owned by a backend, called by the background thread
// alone. No call blocks.
class Link {
 public:
  virtual ~Link() = default;
  virtual Ticket post_send(Rank peer, ConstBytes bytes, Tag tag) = 0;
  virtual Ticket post_receive(Rank peer, MutableBytes bytes, Tag tag) = 0;
  // Once the bytes have left, or are there: how many. A message that is shorter than the receive it matches
  // is no error. After that the ticket is spent.
  virtual std::optional<std::size_t> done(Ticket ticket) = 0;
  // After a failure: nobody waits for this ticket any more, and its bytes will not be touched again.
  virtual void cancel(Ticket ticket) = 0;
  // Tags are no larger.
  virtual Tag largest_tag() const { return std::numeric_limits<Tag>::max(); }
};

// Those that a Plan concerns, or a part of it, stand in a row; this rank's number there is `index`.
struct Group {
  Rank index = 0;
  Rank size = 1;
  std::shared_ptr<const RankSet> members;  // in the order of their ranks ...
  std::vector<Rank> in_order;              // ... or, if not empty, in this one

  static Group of(const Plan& plan, Rank rank) {
    return {plan.members->index_of(rank), plan.members->count(), plan.members, {}};
  }
  // The index at a distance, round and round.
  Rank neighbour(Rank distance) const { return ((index + distance) % size + size) % size; }
  Rank rank_at(Rank at) const {
    return in_order.empty() ? members->at(at) : in_order[static_cast<std::size_t>(at)];
  }
};

}  // namespace rueda
