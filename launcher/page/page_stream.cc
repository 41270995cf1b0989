// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace rueda {
namespace {

using Clock = std::chrono::steady_clock;

bool wait_for(int descriptor, short what, Clock::time_point until) {
  pollfd wait{descriptor, what, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

bool PageStream::await_request() {
  if (begin_ == end_ && !wait_for(socket_, POLLIN, Clock::now() + bounds_.idle)) return false;
  until_ = Clock::now() + bounds_.request;
  taken_ = 0;
  return true;
}

bool PageStream::is_readable() const { return begin_ < end_ || wait_for(socket_, POLLIN, until_); }

bool PageStream::is_writable() const { return wait_for(socket_, POLLOUT, Clock::now() + bounds_.writing); }

ssize_t PageStream::read(char* target, std::size_t size) {
  if (taken_ >= bounds_.request_bytes || Clock::now() > until_) return -1;
  if (begin_ == end_) {
    if (!wait_for(socket_, POLLIN, until_)) return -1;
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (count <= 0) return count;
    begin_ = 0;
    end_ = static_cast<std::size_t>(count);
  }
  const std::size_t count = std::min(size, end_ - begin_);
  std::memcpy(target, buffer_.data() + begin_, count);
  begin_ += count;
  taken_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t PageStream::write(const char* text, std::size_t size) {
  for (std::size_t written = 0; written < size;) {
    const ssize_t count = ::send(socket_, text + written, size - written, MSG_NOSIGNAL);
    if (count > 0) written += static_cast<std::size_t>(count);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return -1;
    if (count < 0 && !wait_for(socket_, POLLOUT, Clock::now() + bounds_.writing)) return -1;
  }
  return static_cast<ssize_t>(size);
}

}  // namespace rueda
