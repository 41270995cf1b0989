// SPDX-License-Identifier: Apache-2.0
// Frames from one socket.
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "ops/tcp/frame.h"
#include "ops/tcp/message.h"
#include "ops/tcp/record_stream.h"

namespace rueda {

// Purpose: reads headers, and what follows them straight into the memory that the owner names; of what comes
// behind that only the beginning is read along, into an inbox. Part of a rail; knows nothing of messages but
// their memory.
class RailInput {
 public:
  enum class Event {
    header,   // frame() is known; expect() says where its bytes go
    body,     // they are there
    nothing,  // no more now, or the budget is used up
    ended,    // the connection is over
    forged,   // somebody changes the bytes on their way
  };

  // All that comes is encrypted.
  void decrypt(Cipher cipher, const Proof& key) { records_.emplace(cipher, key); }

  // Goes on to the next event; takes what it reads off the budget.
  Event next(int socket, std::size_t& budget);
  const Frame& frame() const { return frame_; }
  // The bytes of this frame belong into `message`, from `offset` on.
  void expect(std::shared_ptr<Incoming> message, std::size_t offset);
  std::shared_ptr<Incoming> take_message() { return std::move(message_); }

  std::uint64_t bytes() const { return bytes_; }  // that have come in all
  int error() const { return error_; }            // why it ended; 0: the other side closed it

 private:
  static constexpr std::size_t kInbox = 4096;

  enum class Read { some, none, end, forged };
  Read read(int socket, std::size_t& budget);
  std::span<iovec> scatter(std::span<iovec, 2> parts);
  void use_inbox();
  bool take_header();
  bool wanted() const { return message_ && !message_->unwanted; }

  std::optional<RecordReader> records_;  // none: the bytes travel as they are
  Frame frame_;
  bool in_body_ = false;
  std::size_t left_ = 0;  // of the body
  std::shared_ptr<Incoming> message_;
  std::size_t offset_ = 0;
  std::array<std::byte, kInbox> inbox_;
  std::size_t begin_ = 0;  // what is in it: [begin_, end_)
  std::size_t end_ = 0;
  std::uint64_t bytes_ = 0;
  int error_ = 0;
};

}  // namespace rueda
