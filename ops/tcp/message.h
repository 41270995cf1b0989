// SPDX-License-Identifier: Apache-2.0
// A message while a TcpLink moves it.
#pragma once

#include <optional>

#include "core/base/bytes.h"
#include "ops/link/link.h"

namespace rueda {

// Purpose: what a Ticket stands for. Shared by the link's tickets, the FlowControl of its peer and the rails
// that move it; owned by the background thread.
struct TcpMessage {
  Rank peer = 0;
  Tag tag = 0;
  std::size_t size = 0;  // bytes posted
  std::size_t moved = 0;
  bool over = false;  // `moved` bytes have left, or are there

  virtual ~TcpMessage() = default;
  // From now on the bytes that were posted are not touched.
  virtual void cancel() = 0;
};

// One that is sent. The order of messages must stay, so that none is called back: cancelled before it has
// begun it goes without bytes, afterwards from a copy.
struct Outgoing final : TcpMessage {
  ConstBytes bytes;
  std::uint64_t sequence = 0;  // of its grant
  bool begun = false;
  std::size_t claimed = 0;  // by rails
  std::size_t written = 0;
  Bytes kept;  // the copy

  void cancel() override {
    if (over) return;
    if (begun) kept.assign(bytes.begin(), bytes.end());
    bytes = kept;
  }
};

// One that is received: into memory of who posted it, or of its own where nobody has yet. Cancelled, what
// comes is dropped.
struct Incoming final : TcpMessage {
  MutableBytes memory;
  std::uint64_t sequence = 0;        // of its grant
  std::optional<std::size_t> total;  // bytes of the message; not known before its first fragment
  std::size_t announced = 0;         // in headers
  std::size_t came = 0;
  bool unwanted = false;
  Bytes own;

  void cancel() override { unwanted = true; }
};

}  // namespace rueda
