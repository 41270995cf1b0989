// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_connections.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/page/page_stream.h"

namespace rueda {
namespace {

constexpr int kMostRequests = 100;  // of a connection
constexpr int kSendBuffer = 128 << 10;
constexpr int kPauseMs = 100;  // after an accept that fails
// Dropped strangers may need a moment to leave.
constexpr std::size_t kMostThreads = PageConnections::kMostAdmitted + 2 * PageConnections::kMostStrangers;

thread_local int own_number = -1;  // of this thread's connection

// A small buffer: the kernel tells soon that a slow client takes bytes.
void set_up(const Descriptor& socket) {
  const int yes = 1;
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(socket.number(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
}

}  // namespace

PageConnections::PageConnections(Descriptor listening, PageBounds bounds)
    : listening_(std::move(listening)), wakes_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), bounds_(bounds) {
  if (!wakes_) throw std::system_error(errno, std::generic_category(), "cannot make an eventfd");
  svr_sock_ = listening_.number();  // without one httplib would end each stream of events
}

PageConnections::~PageConnections() { end(); }

void PageConnections::serve() {
  while (!ending_) {
    std::array<pollfd, 2> waits{{{listening_.number(), POLLIN, 0}, {wakes_.number(), POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), -1);
    if (waits[0].revents != 0 && !ending_) accept_one();
  }
}

void PageConnections::accept_one() {
  Descriptor socket(::accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return take(std::move(socket));
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
  pollfd wait{wakes_.number(), POLLIN, 0};  // there is no descriptor left, for example
  ::poll(&wait, 1, kPauseMs);
}

void PageConnections::take(Descriptor socket) {
  const auto shared = std::make_shared<const Descriptor>(std::move(socket));
  const int number = shared->number();
  set_up(*shared);
  {
    std::unique_lock lock(mutex_);
    if (strangers_.size() >= kMostStrangers) {
      ::shutdown(strangers_.front(), SHUT_RDWR);
      strangers_.pop_front();
    }
    left_.wait(lock, [this] { return ending_ || threads_ < kMostThreads; });
    if (ending_) return;
    strangers_.push_back(number);
    ++threads_;
  }
  try {
    std::thread([this, shared] { answer(*shared); }).detach();
  } catch (const std::system_error&) {  // there is no thread for it
    leave(number);
  }
}

void PageConnections::answer(const Descriptor& socket) {
  own_number = socket.number();
  try {
    PageStream stream(socket.number(), bounds_);
    for (int i = 1; i <= kMostRequests && !ending_ && stream.await_request(); ++i) {
      bool closed = false;
      if (!process_request(stream, i == kMostRequests, closed, nullptr) || closed) break;
    }
  } catch (const std::exception&) {  // no memory, or nonsense: the client is dropped
  }
  ::shutdown(socket.number(), SHUT_RDWR);
  leave(socket.number());
}

bool PageConnections::admit() {
  const std::lock_guard lock(mutex_);
  if (admitted_.contains(own_number)) return true;
  if (ending_ || admitted_.size() >= kMostAdmitted || std::erase(strangers_, own_number) == 0) return false;
  admitted_.insert(own_number);
  return true;
}

void PageConnections::leave(int number) {
  const std::lock_guard lock(mutex_);
  std::erase(strangers_, number);
  admitted_.erase(number);
  --threads_;
  left_.notify_all();
}

void PageConnections::end() {
  std::unique_lock lock(mutex_);
  ending_ = true;
  svr_sock_ = INVALID_SOCKET;
  const std::uint64_t one = 1;
  static_cast<void>(::write(wakes_.number(), &one, sizeof one));
  ::shutdown(listening_.number(), SHUT_RDWR);  // another process may hold it, too
  for (const int number : strangers_) ::shutdown(number, SHUT_RDWR);
  for (const int number : admitted_) ::shutdown(number, SHUT_RDWR);
  left_.notify_all();
  left_.wait(lock, [this] { return threads_ == 0; });
}

}  // namespace rueda
