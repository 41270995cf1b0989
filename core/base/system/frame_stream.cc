// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/frame_stream.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t);
constexpr std::size_t kReadAtOnce = 64 << 10;

void drop_front(Bytes& bytes, std::size_t& count) {
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::exchange(count, 0)));
}

}  // namespace

FrameStream::FrameStream(Descriptor socket, std::size_t longest, std::size_t most_unsent)
    : socket_(std::move(socket)), longest_(longest), most_unsent_(most_unsent) {
  ::fcntl(socket_.number(), F_SETFL, ::fcntl(socket_.number(), F_GETFL) | O_NONBLOCK);
}

void FrameStream::send(ConstBytes frame) {
  if (!socket_ || deaf_) return;
  const auto length = static_cast<std::uint32_t>(frame.size());
  std::array<std::byte, kHeader> header{};
  std::memcpy(header.data(), &length, kHeader);
  unsent_.insert(unsent_.end(), header.begin(), header.end());
  unsent_.insert(unsent_.end(), frame.begin(), frame.end());
  flush();
  if (unsent_.size() > most_unsent_) close();
}

void FrameStream::close_for_sending() {
  if (socket_) ::shutdown(socket_.number(), SHUT_WR);
}

void FrameStream::flush() {
  while (socket_ && sent_ < unsent_.size()) {
    const ssize_t count =
        ::send(socket_.number(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (count > 0) {
      sent_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      deaf_ = true;
      sent_ = unsent_.size();
    }
  }
  drop_front(unsent_, sent_);
}

// One buffer at most: a peer that never stops sending must not keep the loop. The owner calls take() after
// each call. So less than a frame and a buffer is ever held.
void FrameStream::receive() {
  std::array<std::byte, kReadAtOnce> buffer;
  if (!socket_) return;
  const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), 0);
  if (count > 0) {
    drop_front(received_, taken_);
    received_.insert(received_.end(), buffer.begin(), buffer.begin() + count);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    close();
  }
}

std::optional<Bytes> FrameStream::take() {
  std::uint32_t length = 0;
  const std::size_t held = received_.size() - taken_;
  if (held < kHeader) return std::nullopt;
  std::memcpy(&length, received_.data() + taken_, kHeader);
  if (length > longest_) {
    close();
    received_.clear();
    taken_ = 0;
    return std::nullopt;
  }
  if (held < kHeader + length) return std::nullopt;
  const auto begin = received_.begin() + static_cast<std::ptrdiff_t>(taken_ + kHeader);
  taken_ += kHeader + length;
  return Bytes(begin, begin + length);
}

}  // namespace rueda
