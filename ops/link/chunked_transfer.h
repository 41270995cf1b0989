// SPDX-License-Identifier: Apache-2.0
// A long run of bytes to or from one peer, in chunks.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>

#include "ops/link/channel.h"

namespace rueda {

// Purpose: sends (Byte = const std::byte) or receives (std::byte) in chunks of at most `chunk` bytes, a few
// in flight at a time. A sender can be held back to `limit` bytes, so that it passes on received bytes only.
// `data` may be null if the channel has been abandoned. Part of a Work.
template <class Byte>
class Stream {
 public:
  Stream(Channel& channel, Rank peer, Byte* data, std::size_t bytes, std::int64_t chunk)
      : channel_(&channel),
        peer_(peer),
        data_(data),
        bytes_(bytes),
        chunk_(static_cast<std::size_t>(chunk)) {}

  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&&) noexcept = default;

  // Posts chunks up to `limit` and retires finished ones. Returns true if anything moved.
  bool advance(std::size_t limit) {
    bool moved = false;
    while (retired_ < begun_ && in_flight_[retired_ % kDepth].done()) {
      done_ = std::min(bytes_, done_ + chunk_);
      ++retired_;
      moved = true;
    }
    while (posted_ < bytes_ && begun_ - retired_ < kDepth) {
      const std::size_t count = std::min(chunk_, bytes_ - posted_);
      if (posted_ + count > limit) break;
      in_flight_[begun_++ % kDepth] = post(at(data_, static_cast<std::int64_t>(posted_)), count);
      posted_ += count;
      moved = true;
    }
    return moved;
  }
  bool advance() { return advance(bytes_); }

  std::size_t done_bytes() const { return done_; }
  bool done() const { return done_ == bytes_; }

 private:
  static constexpr std::size_t kDepth = 4;

  Transfer post(Byte* data, std::size_t count) {
    if constexpr (std::is_const_v<Byte>) {
      return channel_->send(peer_, {data, count});
    } else {
      return channel_->receive(peer_, {data, count});
    }
  }

  Channel* channel_;
  Rank peer_;
  Byte* data_;
  std::size_t bytes_;
  std::size_t chunk_;
  std::array<Transfer, kDepth> in_flight_;  // chunk i at i % kDepth
  std::size_t begun_ = 0;                   // chunks
  std::size_t retired_ = 0;
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
};

using SendStream = Stream<const std::byte>;
using ReceiveStream = Stream<std::byte>;

}  // namespace rueda
