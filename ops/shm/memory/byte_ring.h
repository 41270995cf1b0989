// SPDX-License-Identifier: Apache-2.0
// Messages of any length through a ring of cells in shared memory, from one process to one other.
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

// The shared part, all zero at first. A cell is one line of the caches. A short message lies in one cell, so
// one line moves from core to core.
struct ByteRing {
  static constexpr std::size_t kCells = 1024;
  static constexpr std::size_t kBytesOfCell = 56;
  static constexpr std::size_t kBytes = kCells * kBytesOfCell;

  struct alignas(64) Cell {
    // Stored by the writer alone, after the bytes: its number counted from 1, and how many bytes it has.
    std::atomic<std::uint64_t> head{0};
    std::byte bytes[kBytesOfCell];
  };

  alignas(64) std::atomic<std::uint64_t> read{0};         // cells; stored by the reader alone
  alignas(64) std::atomic<std::uint32_t> wants_space{0};  // by the writer: ring me when cells were taken out
  Cell cells[kCells];
};

// Purpose: the sending end. Messages that do not fit wait here and are streamed in pieces, so that a message
// may be longer than the ring. Neither end believes the other: a count that cannot be is an error, and
// nothing outside the ring is touched. Owned by the background thread; borrows the ring.
//
// Why no wake-up is missed: the writer stores a cell's `head` (seq_cst), then rings the reader's doorbell;
// the reader, about to sleep, looks at that `head` after its listen(). The other way round the writer stores
// `wants_space`, looks at `read` again, and only then rests; the reader stores `read` and then looks at
// `wants_space`.
class ByteRingWriter {
 public:
  // `doorbell` is the reader's.
  ByteRingWriter(ByteRing& ring, EventCount doorbell) : ring_(ring), doorbell_(std::move(doorbell)) {}

  // To be flushed.
  void send(Bytes message);
  // Moves into the ring what fits, and rings. Ok, or what is wrong with the ring.
  Status flush();
  bool empty() const { return waiting_.empty() && told_ == written_; }

 private:
  std::optional<std::size_t> space();
  std::size_t put(ConstBytes rest);

  ByteRing& ring_;
  EventCount doorbell_;
  std::uint64_t written_ = 0;  // cells, as all counts
  std::uint64_t told_ = 0;     // the doorbell has rung for these
  std::uint64_t read_ = 0;     // as last seen
  std::deque<Bytes> waiting_;
  std::size_t gone_ = 0;  // bytes of the first that are in the ring already
};

// Purpose: the receiving end. Owned by the background thread; borrows the ring.
class ByteRingReader {
 public:
  static constexpr std::size_t kLongest = std::size_t{1} << 30;

  // `doorbell` is the writer's.
  ByteRingReader(ByteRing& ring, EventCount doorbell) : ring_(ring), doorbell_(std::move(doorbell)) {}

  // The next whole message, if there is one.
  std::optional<Bytes> receive();
  // Since receive() has last found nothing.
  bool nothing_has_come() const;
  // Ok, or what is wrong with the ring; nothing is received any more then.
  const Status& failure() const { return failure_; }

 private:
  enum class Taken { nothing, piece, end };
  Taken take_cell();

  ByteRing& ring_;
  EventCount doorbell_;
  std::uint64_t read_ = 0;
  Bytes body_;  // of the message that is coming
  Status failure_;
};

}  // namespace rueda
