// SPDX-License-Identifier: Apache-2.0
// Bytes that come from one rank and go on to others as they come.
#pragma once

#include <optional>
#include <vector>

#include "ops/algorithms/passes/algorithm.h"
#include "ops/link/chunked_transfer.h"

namespace rueda {

// Purpose: one rank's part of a broadcast of `bytes` at `data`, in messages of at most `chunk` bytes. A rank
// without a source has the bytes. Part of a Work. `data` may be null if the channel has been abandoned.
class Relay final : public Algorithm {
 public:
  Relay(Channel& channel, std::byte* data, std::size_t bytes, std::int64_t chunk)
      : channel_(channel), data_(data), bytes_(bytes), chunk_(chunk) {}

  void receive_from(Rank rank) { from_.emplace(channel_, rank, data_, bytes_, chunk_); }
  void send_to(Rank rank) { to_.emplace_back(channel_, rank, data_, bytes_, chunk_); }

  Step step() override {
    bool moved = from_ && from_->advance();
    const std::size_t here = from_ ? from_->done_bytes() : bytes_;
    bool done = here == bytes_;
    for (SendStream& next : to_) {
      moved |= next.advance(here);
      done &= next.done();
    }
    if (done) return Step::done;
    return moved ? Step::again : Step::waiting;
  }
  std::string_view phase() const override {
    return from_ && !from_->done() ? "receiving a broadcast" : "sending a broadcast";
  }

 private:
  Channel& channel_;
  std::byte* data_;
  std::size_t bytes_;
  std::int64_t chunk_;
  std::optional<ReceiveStream> from_;
  std::vector<SendStream> to_;
};

}  // namespace rueda
