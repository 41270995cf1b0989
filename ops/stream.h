// SPDX-License-Identifier: Apache-2.0
// A long run of bytes to or from one peer, in chunks.
#pragma once

#include <algorithm>
#include <deque>
#include <type_traits>

#include "ops/transfer.h"

namespace rueda {

// Purpose: sends (Bytes = ConstBytes) or receives (MutableBytes) in chunks of at most `chunk` bytes, a few in
// flight at a time. A sender can be held back to `limit` bytes, so that it passes on what has come so far.
// Part of a Work.
template <class Span>
class Stream {
 public:
  Stream(Link& link, Rank peer, Span bytes, Tag tag, std::int64_t chunk)
      : link_(&link), peer_(peer), bytes_(bytes), tag_(tag), chunk_(static_cast<std::size_t>(chunk)) {}

  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = default;

  // Posts what may be posted and retires what is done; whether anything moved.
  bool advance(std::size_t limit) {
    bool moved = false;
    while (!in_flight_.empty() && in_flight_.front().done()) {
      done_ = std::min(bytes_.size(), done_ + chunk_);
      in_flight_.pop_front();
      moved = true;
    }
    while (posted_ < bytes_.size() && in_flight_.size() < kDepth) {
      const std::size_t count = std::min(chunk_, bytes_.size() - posted_);
      if (posted_ + count > limit) break;
      in_flight_.push_back(post(bytes_.subspan(posted_, count)));
      posted_ += count;
      moved = true;
    }
    return moved;
  }
  bool advance() { return advance(bytes_.size()); }

  std::size_t done_bytes() const { return done_; }
  bool done() const { return done_ == bytes_.size(); }

 private:
  static constexpr std::size_t kDepth = 4;

  Transfer post(ConstBytes piece) { return Transfer::send(*link_, peer_, piece, tag_); }
  Transfer post(MutableBytes piece) requires std::is_same_v<Span, MutableBytes> {
    return Transfer::receive(*link_, peer_, piece, tag_);
  }

  Link* link_;
  Rank peer_;
  Span bytes_;
  Tag tag_;
  std::size_t chunk_;
  std::deque<Transfer> in_flight_;
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
};

}  // namespace rueda
