// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/byte_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

// The lowest byte of a head: how many bytes the cell has, and whether its message ends there. The complement
// of that byte is above it, and the number of the cell above both.
constexpr std::uint64_t kEnd = 0x80;
constexpr int kNumberShift = 16;

constexpr std::uint64_t head_of(std::uint64_t number, std::size_t bytes, bool ends) {
  const std::uint64_t low = bytes | (ends ? kEnd : 0);
  return number << kNumberShift | (low ^ 0xff) << 8 | low;
}

constexpr std::size_t cells_of(std::size_t length) {
  return std::max<std::size_t>(1, (length + ByteRing::kBytesOfCell - 1) / ByteRing::kBytesOfCell);
}

Status corrupted(const std::string& found) {
  return Status::backend_error(fmt::format(
      "A ring in shared memory is corrupted: {}. Another process has written where it must not; start "
      "the job again.",
      found));
}

}  // namespace

void ByteRingWriter::send(Bytes message) {
  RUEDA_ASSERT(message.size() <= ByteRingReader::kLongest);
  if (!waiting_.empty() || space().value_or(0) < cells_of(message.size())) {
    waiting_.push_back(std::move(message));
    return;
  }
  for (ConstBytes rest(message);;) {
    const std::size_t count = put(rest);
    rest = rest.subspan(count);
    if (rest.empty()) return;
  }
}

Status ByteRingWriter::flush() {
  while (!empty()) {
    while (!waiting_.empty()) {
      const std::optional<std::size_t> room = space();
      if (!room)
        return corrupted(fmt::format("{} cells written, {} read, room for {}", written_, ring_.read.load(),
                                     ByteRing::kCells));
      if (*room == 0) break;
      gone_ += put(ConstBytes(waiting_.front()).subspan(gone_));
      if (gone_ < waiting_.front().size()) continue;
      waiting_.pop_front();
      gone_ = 0;
    }
    if (written_ != told_) {
      told_ = written_;
      doorbell_.ring();
    }
    if (waiting_.empty()) break;
    if (ring_.wants_space.load(std::memory_order_relaxed) != 0) return {};
    ring_.wants_space.store(1);  // then look once more
  }
  if (ring_.wants_space.load(std::memory_order_relaxed) != 0) ring_.wants_space.store(0);
  return {};
}

// How many cells are free; nothing if the reader's count cannot be.
std::optional<std::size_t> ByteRingWriter::space() {
  std::uint64_t used = written_ - read_;
  if (used == ByteRing::kCells) {
    const std::uint64_t read = ring_.read.load();
    if (read - read_ > used) return std::nullopt;
    read_ = read;
    used = written_ - read_;
  }
  return ByteRing::kCells - used;
}

// Fills the next cell with the first of these bytes, and returns how many it has taken.
std::size_t ByteRingWriter::put(ConstBytes rest) {
  ByteRing::Cell& cell = ring_.cells[written_ % ByteRing::kCells];
  const std::size_t count = std::min(rest.size(), ByteRing::kBytesOfCell);
  if (count > 0) std::memcpy(cell.bytes, rest.data(), count);
  cell.head.store(head_of(++written_, count, count == rest.size()));
  return count;
}

std::optional<Bytes> ByteRingReader::receive() {
  const std::uint64_t before = read_;
  Taken taken = Taken::piece;
  while (taken == Taken::piece && failure_.ok()) taken = take_cell();
  if (read_ != before) {
    ring_.read.store(read_);
    if (ring_.wants_space.load() != 0) doorbell_.ring();
  }
  if (taken != Taken::end) return std::nullopt;
  return std::exchange(body_, {});
}

// What stands there before the cell comes is the cell of the lap before. The message grows as cells come: a
// wrong head allocates nothing.
ByteRingReader::Taken ByteRingReader::take_cell() {
  const ByteRing::Cell& cell = ring_.cells[read_ % ByteRing::kCells];
  const std::uint64_t head = cell.head.load();
  const std::uint64_t low = head & 0xff, number = head >> kNumberShift;
  const std::size_t count = low & ~kEnd;
  const bool is_first_lap = read_ < ByteRing::kCells;
  if (is_first_lap ? head == 0 : number == read_ + 1 - ByteRing::kCells) return Taken::nothing;
  const bool is_end = (low & kEnd) != 0;
  const bool is_whole = head == head_of(read_ + 1, count, is_end);
  const bool fits = count <= ByteRing::kBytesOfCell && (is_end || count == ByteRing::kBytesOfCell);
  if (!is_whole || !fits || body_.size() + count > kLongest) {
    failure_ = corrupted(fmt::format("{:#x} stands at the head of cell {}", head, read_));
    return Taken::nothing;
  }
  body_.insert(body_.end(), cell.bytes, cell.bytes + count);
  ++read_;
  return is_end ? Taken::end : Taken::piece;
}

bool ByteRingReader::nothing_has_come() const {
  return ring_.cells[read_ % ByteRing::kCells].head.load() >> kNumberShift != read_ + 1;
}

}  // namespace rueda
