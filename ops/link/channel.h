// SPDX-License-Identifier: Apache-2.0
// A Work's messages: tickets that give themselves back, and that bring nothing once the Work is abandoned.
#pragma once

#include <optional>
#include <utility>

#include "core/base/host_buffer.h"
#include "ops/link/link.h"

namespace rueda {

class Transfer;

// Purpose: one Work's messages to and from its peers, under the tag of its Plan. Once abandoned, it sends
// empty messages and drops received bytes. But every message of its schedule is still sent and received, so
// its peers come to their ends, and the link stays in order. An empty message tells its receiver that the
// sender has abandoned the Plan. The receiver abandons it too before it passes anything on, so no rank ever
// takes void bytes for data. Part of a Work, which outlives its Transfers.
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
    std::swap(channel_, other.channel_);
    std::swap(ticket_, other.ticket_);
    std::swap(due_, other.due_);
    std::swap(nowhere_, other.nowhere_);
    return *this;
  }
  ~Transfer() {
    if (channel_ != nullptr) channel_->link_.cancel(ticket_);
  }

  // Ask the channel afterwards whether what came is data.
  bool done() {
    if (channel_ == nullptr) return true;
    const std::optional<std::size_t> moved = channel_->link_.done(ticket_);
    if (!moved) return false;
    std::exchange(channel_, nullptr)->take(*moved, due_);
    return true;
  }

 private:
  friend class Channel;

  Channel* channel_ = nullptr;  // null: done
  Ticket ticket_ = 0;
  std::size_t due_ = 0;  // bytes
  HostBuffer nowhere_;   // where they go when nobody wants them
};

// The address `offset` bytes behind `base`; null where that is null.
inline std::byte* at(std::byte* base, std::int64_t offset) { return base == nullptr ? base : base + offset; }
inline const std::byte* at(const std::byte* base, std::int64_t offset) {
  return base == nullptr ? base : base + offset;
}

}  // namespace rueda
