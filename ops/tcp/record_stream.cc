// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/record_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kBuffer = 2 * (kRecordHeader + kRecordText + RecordCipher::kTagBytes);

}  // namespace

ssize_t RecordWriter::write(int socket, std::span<const iovec> parts) {
  if (text_ == 0) seal(parts);
  while (written_ < record_.size()) {
    const ssize_t count =
        ::send(socket, record_.data() + written_, record_.size() - written_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) return -1;
    written_ += static_cast<std::size_t>(count);
  }
  return static_cast<ssize_t>(std::exchange(text_, 0));
}

void RecordWriter::seal(std::span<const iovec> parts) {
  record_.resize(kRecordHeader);
  for (const iovec& part : parts) {
    const auto* bytes = static_cast<const std::byte*>(part.iov_base);
    const std::size_t count = std::min(part.iov_len, kRecordHeader + kRecordText - record_.size());
    record_.insert(record_.end(), bytes, bytes + count);
  }
  text_ = record_.size() - kRecordHeader;
  const auto length = static_cast<std::uint32_t>(text_);
  std::memcpy(record_.data(), &length, sizeof length);
  record_.resize(record_.size() + RecordCipher::kTagBytes);
  written_ = 0;
  const MutableBytes all(record_);
  cipher_.seal(all.first(kRecordHeader), all.subspan(kRecordHeader));
}

RecordReader::RecordReader(Cipher cipher, const Proof& key) : cipher_(cipher, key), buffer_(kBuffer) {}

ssize_t RecordReader::read(int socket, std::span<const iovec> parts) {
  if (!ready()) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    const ssize_t came = ::read(socket, buffer_.data() + end_, buffer_.size() - end_);
    if (came <= 0) return came;
    end_ += static_cast<std::size_t>(came);
  }
  if (text_ == 0 && !open()) return -1;
  std::size_t given = 0;
  for (const iovec& part : parts) {
    const std::size_t count = std::min(part.iov_len, text_);
    std::memcpy(part.iov_base, buffer_.data() + begin_, count);
    begin_ += count;
    text_ -= count;
    given += count;
  }
  if (text_ == 0) begin_ += RecordCipher::kTagBytes;
  return static_cast<ssize_t>(given);
}

std::uint32_t RecordReader::length() const {
  std::uint32_t length = 0;
  std::memcpy(&length, buffer_.data() + begin_, sizeof length);
  return length;
}

// A length that cannot be counts as whole, so that open() refuses it.
bool RecordReader::record_is_whole() const {
  if (end_ - begin_ < kRecordHeader) return false;
  return length() > kRecordText || end_ - begin_ >= kRecordHeader + length() + RecordCipher::kTagBytes;
}

bool RecordReader::open() {
  errno = EAGAIN;
  if (!record_is_whole()) return false;
  const std::size_t text = length();
  errno = EBADMSG;
  if (text == 0 || text > kRecordText) return false;
  const MutableBytes all(buffer_);
  const MutableBytes record = all.subspan(begin_ + kRecordHeader, text + RecordCipher::kTagBytes);
  if (!cipher_.open(all.subspan(begin_, kRecordHeader), record)) return false;
  begin_ += kRecordHeader;
  text_ = text;
  return true;
}

}  // namespace rueda
