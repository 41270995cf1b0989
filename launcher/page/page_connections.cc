// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_connections.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kUntilRequest = 5s;  // between two of a connection
constexpr auto kReading = 5s;       // of a request's next byte
constexpr auto kWriting = 10s;      // of one text: so slow a reader is dropped
constexpr int kMostRequests = 100;  // of a connection

thread_local bool refuses = false;  // this thread has no time for a client

bool wait_for(int descriptor, short what, Clock::time_point until) {
  pollfd wait{descriptor, what, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// A connection as httplib reads and writes it, with an end to every wait.
class BoundedStream : public httplib::Stream {
 public:
  explicit BoundedStream(int socket) : socket_(socket) {}

  bool is_readable() const override {
    return begin_ < end_ || wait_for(socket_, POLLIN, Clock::now() + kReading);
  }
  bool is_writable() const override { return wait_for(socket_, POLLOUT, Clock::now() + kWriting); }

  ssize_t read(char* target, std::size_t size) override {
    if (begin_ == end_) {
      if (!wait_for(socket_, POLLIN, Clock::now() + kReading)) return -1;
      const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (count <= 0) return count;
      begin_ = 0;
      end_ = static_cast<std::size_t>(count);
    }
    const std::size_t count = std::min(size, end_ - begin_);
    std::memcpy(target, buffer_.data() + begin_, count);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* text, std::size_t size) override {
    const auto until = Clock::now() + kWriting;
    for (std::size_t written = 0; written < size;) {
      const ssize_t count = ::send(socket_, text + written, size - written, MSG_NOSIGNAL);
      if (count > 0) written += static_cast<std::size_t>(count);
      if (count < 0 && errno != EAGAIN && errno != EINTR) return -1;
      if (count < 0 && !wait_for(socket_, POLLOUT, until)) return -1;
      if (Clock::now() > until && written < size) return -1;
    }
    return static_cast<ssize_t>(size);
  }

  bool has_next() const { return begin_ < end_ || wait_for(socket_, POLLIN, Clock::now() + kUntilRequest); }

  // Nobody asks for them.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  const int socket_;
  std::array<char, 4096> buffer_{};
  std::size_t begin_ = 0, end_ = 0;  // of what has been received, and not read
};

}  // namespace

// httplib makes one when it begins to listen, and deletes it at the end.
class PageConnections::Threads : public httplib::TaskQueue {
 public:
  explicit Threads(PageConnections& connections) : connections_(connections) {}

  void enqueue(std::function<void()> work) override { connections_.run(std::move(work)); }
  void shutdown() override {}

 private:
  PageConnections& connections_;
};

PageConnections::PageConnections() {
  new_task_queue = [this] { return new Threads(*this); };
}

PageConnections::~PageConnections() { end(); }

void PageConnections::serve() {
  constexpr int kWaiting = 64;  // clients at a time; httplib lets few wait
  ::listen(svr_sock_, kWaiting);
  is_listening_ = true;
  listen_after_bind();
  is_listening_ = false;
}

// Above the limit, or without a thread, the thread that accepts closes the connection.
void PageConnections::run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    ++threads_;
  }
  const auto and_leave = [this](const std::function<void()>& what) {
    what();
    const std::lock_guard lock(mutex_);
    --threads_;
    left_.notify_all();
  };
  try {
    std::thread([and_leave, work] { and_leave(work); }).detach();
  } catch (const std::system_error&) {
    refuses = true;
    and_leave(work);
    refuses = false;
  }
}

bool PageConnections::enter(int number) {
  const std::lock_guard lock(mutex_);
  if (ending_ || open_.size() >= kMost) return false;
  open_.insert(number);
  return true;
}

void PageConnections::leave(int number) {
  const std::lock_guard lock(mutex_);
  open_.erase(number);
}

bool PageConnections::process_and_close_socket(socket_t number) {
  const Descriptor socket(number);
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  set_non_blocking(number);
  if (refuses || !enter(number)) return false;
  BoundedStream stream(number);
  bool is_well = true;
  for (int i = 1; is_well && i <= kMostRequests && stream.has_next() && !ending_; ++i) {
    bool closed = false;
    is_well = process_request(stream, i == kMostRequests, closed, nullptr);
    if (closed) break;
  }
  ::shutdown(number, SHUT_RDWR);
  leave(number);
  return is_well;
}

void PageConnections::end() {
  ending_ = true;
  // A thread that is about to listen would not hear it.
  for (int i = 0; is_listening_ && !is_running() && i < 1000; ++i) std::this_thread::sleep_for(1ms);
  stop();
  std::unique_lock lock(mutex_);
  for (const int number : open_) ::shutdown(number, SHUT_RDWR);
  left_.wait(lock, [this] { return threads_ == 0; });
}

}  // namespace rueda
