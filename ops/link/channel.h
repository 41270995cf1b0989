// SPDX-License-Identifier: Apache-2.0
// A Work's messages: tickets that give themselves back, and that bring nothing once the Work is abandoned.
#pragma once

#include <optional>
#include <utility>

#include "core/base/host_buffer.h"
#include "ops/link/link.h"

namespace rueda {

class Transfer;

// Purpose: what one Work says to its peers and hears from them, under the tag of its Plan. Once abandoned,
// what it sends is empty, and what it receives goes nowhere, but every message of its schedule is still sent
// and received: so its peers come to their ends, and the link stays in order. Who receives an empty message
// knows that its sender has abandoned the Plan, and does so too, before it can pass anything on: no rank ever
// takes for data what is none. Part of a Work, which outlives its Transfers.
class Channel {
 public:
  Channel(Link& link, Tag tag) : link_(link), tag_(tag) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // No message for no bytes, on either side: algorithms need no special case for empty pieces. When
  // abandoned, only the number of bytes counts.
  Transfer send(Rank peer, ConstBytes bytes);
  Transfer receive(Rank peer, MutableBytes bytes);

  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

 private:
  friend class Transfer;
  void take(std::size_t came, std::size_t due);  // a message has come

  Link& link_;
  Tag tag_;
  bool abandoned_ = false;
};

// Purpose: one message in flight. Move-only; cancels it if destroyed before it is done. An empty Transfer is
// done.
class Transfer {
 public:
  Transfer() = default;
  Transfer(Transfer&& other) noexcept { *this = std::move(other); }
  Transfer& operator=(Transfer&& other) noexcept {
    std::swap(wire_, other.wire_);
    std::swap(ticket_, other.ticket_);
    std::swap(due_, other.due_);
    std::swap(nowhere_, other.nowhere_);
    return *this;
  }
  ~Transfer() {
    if (wire_ != nullptr) wire_->link_.cancel(ticket_);
  }

  // Ask the wire afterwards whether what came is data.
  bool done() {
    if (wire_ == nullptr) return true;
    const std::optional<std::size_t> moved = wire_->link_.done(ticket_);
    if (!moved) return false;
    std::exchange(wire_, nullptr)->take(*moved, due_);
    return true;
  }

 private:
  friend class Channel;

  Channel* wire_ = nullptr;  // null: done
  Ticket ticket_ = 0;
  std::size_t due_ = 0;  // bytes
  HostBuffer nowhere_;   // where they go when nobody wants them
};

// The place `offset` bytes behind `base`; of memory that is not there, none.
inline std::byte* at(std::byte* base, std::int64_t offset) { return base == nullptr ? base : base + offset; }
inline const std::byte* at(const std::byte* base, std::int64_t offset) {
  return base == nullptr ? base : base + offset;
}

}  // namespace rueda
