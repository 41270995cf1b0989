// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/frame_stream.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t);

}  // namespace

FrameStream::FrameStream(Descriptor socket) : socket_(std::move(socket)) {
  set_non_blocking(socket_.number());
}

void FrameStream::send(ConstBytes frame) {
  if (!socket_ || deaf_) return;
  const auto length = static_cast<std::uint32_t>(frame.size());
  std::array<std::byte, kHeader> header{};
  std::memcpy(header.data(), &length, kHeader);
  unsent_.insert(unsent_.end(), header.begin(), header.end());
  unsent_.insert(unsent_.end(), frame.begin(), frame.end());
  flush();
  if (unsent_.size() > kMostUnsent) close();
}

void FrameStream::flush() {
  while (socket_ && !unsent_.empty()) {
    const ssize_t count = ::send(socket_.number(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (count > 0) {
      unsent_.erase(unsent_.begin(), unsent_.begin() + count);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      deaf_ = true;
      unsent_.clear();
    }
  }
}

// At most one buffer's worth at a time: a peer that never stops sending must not keep the loop. take() is
// called after each, so less than a frame and a buffer is ever held.
void FrameStream::receive() {
  std::array<std::byte, 2 * kLongestFrame> buffer{};
  if (!socket_) return;
  const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), 0);
  if (count > 0) {
    received_.insert(received_.end(), buffer.begin(), buffer.begin() + count);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    close();
  }
}

std::optional<Bytes> FrameStream::take() {
  std::uint32_t length = 0;
  if (received_.size() < kHeader) return std::nullopt;
  std::memcpy(&length, received_.data(), kHeader);
  if (length > kLongestFrame) {
    close();
    received_.clear();
    return std::nullopt;
  }
  if (received_.size() < kHeader + length) return std::nullopt;
  const auto begin = received_.begin() + static_cast<std::ptrdiff_t>(kHeader);
  Bytes frame(begin, begin + length);
  received_.erase(received_.begin(), begin + length);
  return frame;
}

}  // namespace rueda
