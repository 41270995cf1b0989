// SPDX-License-Identifier: Apache-2.0
// Whole messages over a connection that never blocks.
#pragma once

#include <optional>

#include "core/base/bytes.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: cuts a byte stream into frames (a length of four bytes, then so many bytes). What the other side
// sends cannot be trusted: a frame over kLongestFrame breaks the stream, and so does a peer that lets more
// than kMostUnsent bytes pile up. Owner: the main thread.
class FrameStream {
 public:
  static constexpr std::size_t kLongestFrame = 4096;
  static constexpr std::size_t kMostUnsent = 1 << 20;

  FrameStream() = default;
  explicit FrameStream(Descriptor socket);  // makes it non-blocking

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int descriptor() const { return socket_.number(); }
  bool has_unsent() const { return !unsent_.empty(); }
  void close() { socket_.close(); }

  // Queues it and writes what can be written. Where nobody hears, it is dropped; receive() finds the end.
  void send(ConstBytes frame);
  void flush();                 // writes what can be written
  void receive();               // reads what is there; at the end of the stream, closes it
  std::optional<Bytes> take();  // the next whole frame, also after the end

 private:
  Descriptor socket_;
  Bytes unsent_;
  Bytes received_;
  bool deaf_ = false;  // the other side takes no more
};

}  // namespace rueda
