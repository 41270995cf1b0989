// SPDX-License-Identifier: Apache-2.0
// Messages of any length through a ring of bytes in shared memory, from one process to one other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/base/bytes.h"
#include "core/engine/wait/event_count.h"
#include "rueda/status.h"

namespace rueda {

// The shared part, all zero at first. Both counts only grow; their difference is what lies in the ring.
struct ByteRing {
  static constexpr std::size_t kBytes = 64 << 10;

  alignas(64) std::atomic<std::uint64_t> written{0};      // stored by the writer alone
  alignas(64) std::atomic<std::uint64_t> read{0};         // stored by the reader alone
  alignas(64) std::atomic<std::uint32_t> wants_space{0};  // by the writer: ring me when bytes were taken out
  alignas(64) std::byte bytes[kBytes];
};

// Purpose: the sending end. Messages that do not fit wait here and are streamed in pieces, so that a message
// may be longer than the ring. Neither end believes the other: a count that cannot be is an error, and
// nothing outside the ring is touched. Owned by the background thread; borrows the ring.
//
// Why no wake-up is missed: the writer stores `written` (seq_cst), then rings the reader's doorbell; the
// reader, about to sleep, looks at `written` after its listen(). The other way round the writer stores
// `wants_space`, looks at `read` again, and only then rests; the reader stores `read` and then looks at
// `wants_space`.
class ByteRingWriter {
 public:
  // `doorbell` is the reader's.
  ByteRingWriter(ByteRing& ring, EventCount doorbell) : ring_(ring), doorbell_(std::move(doorbell)) {}

  // To be flushed.
  void send(Bytes message);
  // Moves into the ring what fits, and tells the reader. Ok, or what is wrong with the ring.
  Status flush();
  bool empty() const { return waiting_.empty() && told_ == written_; }

 private:
  std::optional<std::size_t> space();
  void put(ConstBytes bytes);

  ByteRing& ring_;
  EventCount doorbell_;
  std::uint64_t written_ = 0;
  std::uint64_t told_ = 0;     // of these
  std::uint64_t read_ = 0;     // as last seen
  std::deque<Bytes> waiting_;  // each with its length in front
  std::size_t gone_ = 0;       // bytes of the first that are in the ring already
};

// Purpose: the receiving end. Owned by the background thread; borrows the ring.
class ByteRingReader {
 public:
  static constexpr std::uint32_t kLongest = 1u << 30;

  // `doorbell` is the writer's.
  ByteRingReader(ByteRing& ring, EventCount doorbell) : ring_(ring), doorbell_(std::move(doorbell)) {}

  // The next whole message, if there is one.
  std::optional<Bytes> receive();
  // Since receive() has last found nothing.
  bool nothing_has_come() const { return ring_.written.load() == read_; }
  // Ok, or what is wrong with the ring; nothing is received any more then.
  const Status& failure() const { return failure_; }

 private:
  void take(Bytes& to, std::size_t wanted);
  std::optional<std::uint32_t> length() const;

  ByteRing& ring_;
  EventCount doorbell_;
  std::uint64_t read_ = 0;
  std::uint64_t written_ = 0;  // as last seen
  Bytes head_;                 // length of the message that is coming
  Bytes body_;
  Status failure_;
};

}  // namespace rueda
