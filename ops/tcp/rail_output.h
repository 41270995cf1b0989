// SPDX-License-Identifier: Apache-2.0
// Frames to one socket.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/tcp/flow_control.h"
#include "ops/tcp/record_stream.h"

namespace rueda {

// Purpose: writes one load at a time: grants and eager messages, then a fragment straight from the memory of
// its message. Part of a rail.
class RailOutput {
 public:
  enum class Result {
    written,  // the load has left; another may come
    blocked,  // the socket takes no more now
    broken,   // nor ever
  };

  // All that leaves is encrypted.
  void encrypt(Cipher cipher, const Proof& key) { records_.emplace(cipher, key); }

  bool idle() const { return head_.empty(); }
  // When idle: one of these, or this one and then that one.
  void load(FlowControl::Control control);
  void load(FlowControl::Fragment fragment);
  // Takes what it writes off the budget, at most one load.
  Result write(int socket, std::size_t& budget);
  // When idle, a few bytes; whether they fit.
  bool send_now(int socket, ConstBytes bytes);

  std::uint64_t bytes() const { return bytes_; }  // that have left in all
  int error() const { return error_; }            // why it is broken

 private:
  ssize_t send(int socket, std::span<iovec> parts);
  void advance(std::size_t count);
  void finish();

  std::optional<RecordWriter> records_;  // none: the bytes travel as they are
  Bytes head_;                           // frames, and the header of the fragment
  std::size_t head_written_ = 0;
  std::vector<std::shared_ptr<Outgoing>> messages_;  // in the head
  std::shared_ptr<Outgoing> message_;                // of the fragment
  std::size_t offset_ = 0;
  std::size_t left_ = 0;
  std::size_t length_ = 0;  // of the fragment
  std::uint64_t bytes_ = 0;
  int error_ = 0;
};

}  // namespace rueda
