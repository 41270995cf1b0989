// SPDX-License-Identifier: Apache-2.0
// Tickets that give themselves back.
#pragma once

#include <utility>

#include "ops/link.h"

namespace rueda {

// Purpose: one message in flight. Move-only; cancels it if destroyed before it is done. An empty Transfer,
// and one of no bytes, is done: algorithms need no special case for empty pieces.
class Transfer {
 public:
  Transfer() = default;
  static Transfer send(Link& link, Rank peer, ConstBytes bytes, Tag tag) {
    return bytes.empty() ? Transfer() : Transfer(link, link.post_send(peer, bytes, tag));
  }
  static Transfer receive(Link& link, Rank peer, MutableBytes bytes, Tag tag) {
    return bytes.empty() ? Transfer() : Transfer(link, link.post_receive(peer, bytes, tag));
  }
  Transfer(Transfer&& other) noexcept : link_(std::exchange(other.link_, nullptr)), ticket_(other.ticket_) {}
  Transfer& operator=(Transfer&& other) noexcept {
    std::swap(link_, other.link_);
    std::swap(ticket_, other.ticket_);
    return *this;
  }
  ~Transfer() {
    if (link_ != nullptr) link_->cancel(ticket_);
  }

  bool done() {
    if (link_ != nullptr && link_->done(ticket_)) link_ = nullptr;
    return link_ == nullptr;
  }

 private:
  Transfer(Link& link, Ticket ticket) : link_(&link), ticket_(ticket) {}

  Link* link_ = nullptr;  // null: done
  Ticket ticket_ = 0;
};

}  // namespace rueda
