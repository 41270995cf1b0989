// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/byte_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

// A message is preceded by its length and the complement of that.
constexpr std::size_t kHead = 2 * sizeof(std::uint32_t);

Status corrupted(std::uint64_t written, std::uint64_t read) {
  return Status::backend_error(
      fmt::format("A ring in shared memory is corrupted: {} bytes written, {} read, room for {}. "
                  "Another process has written where it must not; start the job again.",
                  written, read, ByteRing::kBytes));
}

}  // namespace

void ByteRingWriter::send(Bytes message) {
  RUEDA_ASSERT(message.size() <= ByteRingReader::kLongest);
  const auto length = static_cast<std::uint32_t>(message.size());
  const std::array words{length, ~length};
  const ConstBytes head = std::as_bytes(std::span(words));
  if (waiting_.empty() && space().value_or(0) >= kHead + length) {
    put(head);
    if (length > 0) put(message);
    return;
  }
  waiting_.emplace_back(head.begin(), head.end());
  if (length > 0) waiting_.push_back(std::move(message));
}

Status ByteRingWriter::flush() {
  while (!empty()) {
    while (!waiting_.empty()) {
      const std::optional<std::size_t> room = space();
      if (!room) return corrupted(written_, ring_.read.load());
      if (*room == 0) break;
      const ConstBytes rest = ConstBytes(waiting_.front()).subspan(gone_);
      const ConstBytes piece = rest.first(std::min(rest.size(), *room));
      put(piece);
      gone_ += piece.size();
      if (piece.size() < rest.size()) continue;
      waiting_.pop_front();
      gone_ = 0;
    }
    if (written_ != told_) {
      ring_.written.store(told_ = written_);
      doorbell_.ring();
    }
    if (waiting_.empty()) break;
    if (ring_.wants_space.load(std::memory_order_relaxed) != 0) return {};
    ring_.wants_space.store(1);  // then look once more
  }
  if (ring_.wants_space.load(std::memory_order_relaxed) != 0) ring_.wants_space.store(0);
  return {};
}

// How many bytes fit; nothing if the reader's count cannot be.
std::optional<std::size_t> ByteRingWriter::space() {
  std::uint64_t used = written_ - read_;
  if (used == ByteRing::kBytes) {
    const std::uint64_t read = ring_.read.load();
    if (read - read_ > used) return std::nullopt;
    read_ = read;
    used = written_ - read_;
  }
  return ByteRing::kBytes - used;
}

void ByteRingWriter::put(ConstBytes bytes) {
  const std::size_t at = written_ % ByteRing::kBytes;
  const std::size_t first = std::min(bytes.size(), ByteRing::kBytes - at);
  std::memcpy(ring_.bytes + at, bytes.data(), first);
  if (first < bytes.size()) std::memcpy(ring_.bytes, bytes.data() + first, bytes.size() - first);
  written_ += bytes.size();
}

std::optional<Bytes> ByteRingReader::receive() {
  if (!failure_.ok()) return std::nullopt;
  const std::uint64_t before = read_;
  take(head_, kHead);
  std::optional<Bytes> message;
  if (head_.size() == kHead && failure_.ok()) {
    const std::optional<std::uint32_t> wanted = length();
    if (!wanted) {
      failure_ = corrupted(written_, read_);
    } else {
      take(body_, *wanted);
      if (body_.size() == *wanted) {
        message = std::exchange(body_, {});
        head_.clear();
      }
    }
  }
  if (read_ != before) {
    ring_.read.store(read_);
    if (ring_.wants_space.load() != 0) doorbell_.ring();
  }
  return message;
}

std::optional<std::uint32_t> ByteRingReader::length() const {
  Reader reader(head_);
  const auto length = reader.get<std::uint32_t>();
  if (reader.get<std::uint32_t>() != ~length || length > kLongest) return std::nullopt;
  return length;
}

// Appends to `to` what has come, until it has `wanted` bytes. It grows as bytes come: a wrong length
// allocates nothing. Stops only after a look at `written` that found nothing new.
void ByteRingReader::take(Bytes& to, std::size_t wanted) {
  while (to.size() < wanted && failure_.ok()) {
    if (written_ == read_) {
      written_ = ring_.written.load();
      if (written_ == read_) return;
      if (written_ - read_ > ByteRing::kBytes) {
        failure_ = corrupted(written_, read_);
        return;
      }
    }
    const std::size_t count = std::min<std::size_t>(wanted - to.size(), written_ - read_);
    const std::size_t at = read_ % ByteRing::kBytes;
    const std::size_t first = std::min(count, ByteRing::kBytes - at);
    to.insert(to.end(), ring_.bytes + at, ring_.bytes + at + first);
    if (first < count) to.insert(to.end(), ring_.bytes, ring_.bytes + (count - first));
    read_ += count;
  }
}

}  // namespace rueda
