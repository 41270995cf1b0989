// SPDX-License-Identifier: Apache-2.0
// Non-blocking messages between ranks: what every algorithm is written over.
#pragma once

#include <cstdint>

#include "core/base/bytes.h"
#include "core/base/types.h"

namespace rueda {

using Tag = std::uint32_t;
using Ticket = std::uint64_t;  // of one send or receive, until done() or cancel()

// The Tag of a Plan's messages: Works that run at the same time have different ones.
inline Tag tag_of(std::uint64_t plan_number) { return static_cast<Tag>(plan_number % (1u << 15)); }

// Purpose: moves data between this rank and its peers. Messages of one tag between two ranks match in the
// order of posting; the bytes stay untouched until done. Owned by a backend, called by the coordinator thread
// alone. No call blocks.
class Link {
 public:
  virtual ~Link() = default;
  virtual Ticket post_send(Rank peer, ConstBytes bytes, Tag tag) = 0;
  virtual Ticket post_receive(Rank peer, MutableBytes bytes, Tag tag) = 0;
  // Whether the bytes have left, or are there. Once it says yes the ticket is spent.
  virtual bool done(Ticket ticket) = 0;
  // After a failure: nobody waits for this ticket any more, and its bytes will not be touched again.
  virtual void cancel(Ticket ticket) = 0;
};

// This rank's place among those that a Plan concerns.
struct Group {
  Rank rank = 0;
  Rank size = 1;
  Rank neighbour(Rank distance) const { return ((rank + distance) % size + size) % size; }
};

}  // namespace rueda
