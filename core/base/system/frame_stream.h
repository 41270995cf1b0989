// SPDX-License-Identifier: Apache-2.0
// Whole messages over a connection that never blocks.
#pragma once

#include <cstddef>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/system/descriptor.h"

namespace rueda {

// Purpose: cuts a byte stream into frames (a length of four bytes, then so many bytes). The other side is not
// trusted: a longer frame than `longest` breaks the stream. So does a peer that lets more than `most_unsent`
// bytes pile up. Owned by one thread.
class FrameStream {
 public:
  static constexpr std::size_t kLongestFrame = 4096;
  static constexpr std::size_t kMostUnsent = 1 << 20;

  FrameStream() = default;
  // Makes the socket non-blocking.
  explicit FrameStream(Descriptor socket, std::size_t longest = kLongestFrame,
                       std::size_t most_unsent = kMostUnsent);

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int descriptor() const { return socket_.number(); }
  bool has_unsent() const { return !unsent_.empty(); }
  std::size_t unsent() const { return unsent_.size(); }  // bytes
  void close() { socket_.close(); }
  // Nothing is sent any more; the other side reads the end.
  void close_for_sending();
  // From the next frame on that take() gives.
  void allow(std::size_t longest) { longest_ = longest; }

  // Queues the frame, and writes as much as fits. If the peer reads no more, the frame is dropped; receive()
  // finds the end.
  void send(ConstBytes frame);
  void flush();                 // writes as much as fits
  void receive();               // reads the next bytes; at the end of the stream, closes it
  std::optional<Bytes> take();  // the next whole frame, also after the end

 private:
  Descriptor socket_;
  std::size_t longest_ = kLongestFrame;
  std::size_t most_unsent_ = kMostUnsent;
  Bytes unsent_;
  std::size_t sent_ = 0;  // bytes of unsent_
  Bytes received_;
  std::size_t taken_ = 0;  // bytes of received_
  bool deaf_ = false;      // the other side takes no more
};

}  // namespace rueda
