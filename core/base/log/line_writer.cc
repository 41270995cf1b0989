// SPDX-License-Identifier: Apache-2.0
#include "core/base/log/line_writer.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

namespace rueda {
namespace {

constexpr int kLookAgain = 200;            // milliseconds after which the thread looks for its end
constexpr std::size_t kPieceBytes = 4096;  // PIPE_BUF: a pipe that is ready takes so much without a wait

}  // namespace

LineWriter::~LineWriter() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  lines_came_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LineWriter::add(std::string line) {
  if (line.empty()) return;
  std::lock_guard lock(mutex_);
  start();
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  ++pushed_;
  drop_oldest();
  lines_came_.notify_one();
}

void LineWriter::wait_a_moment() {
  std::unique_lock lock(mutex_);
  if (blocked_ || !thread_.joinable()) return;
  blocked_ = !lines_went_.wait_for(lock, kMoment, [this, last = pushed_] { return gone_ >= last; });
}

bool LineWriter::flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const std::uint64_t last = pushed_;
  return lines_went_.wait_for(lock, limit, [&] { return gone_ >= last; });
}

void LineWriter::drop_oldest() {
  while (bytes_ > kMostBytes && lines_.size() > 1) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    ++dropped_;
    ++gone_;
  }
}

// With the lock held. Signals are for the program's threads. Without a thread lines wait for the next call.
void LineWriter::start() {
  if (thread_.joinable()) return;
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {}
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void LineWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    lines_came_.wait(lock, [this] { return ended_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const std::string text = take();
    lock.unlock();
    put(text);
    lock.lock();
    ++gone_;
    blocked_ = false;
    lines_went_.notify_all();
  }
}

// The oldest line, after a note of those that are missing before it.
std::string LineWriter::take() {
  std::string text = std::move(lines_.front());
  bytes_ -= text.size();
  lines_.pop_front();
  if (dropped_ > 0) {
    text = fmt::format("rueda: {} lines are missing here, since nobody has read them in time\n", dropped_) +
           text;
    dropped_ = 0;
  }
  return text;
}

void LineWriter::put(std::string_view text) {
  while (!text.empty()) {
    pollfd stream{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    if (::poll(&stream, 1, kLookAgain) == 0) {
      if (is_ended()) return;
      continue;
    }
    const ssize_t written = ::write(descriptor_, text.data(), std::min(text.size(), kPieceBytes));
    if (written < 0 && errno != EAGAIN && errno != EINTR) return;  // nobody is left to read it
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

bool LineWriter::is_ended() {
  std::lock_guard lock(mutex_);
  return ended_;
}

// The thread is not there. Its object cannot be joined, and is begun anew as it is.
void LineWriter::after_fork_in_child() {
  lines_.clear();
  bytes_ = 0;
  gone_ = pushed_;
  dropped_ = 0;
  blocked_ = false;
  new (&thread_) std::thread();
  new (&lines_came_) std::condition_variable();
  new (&lines_went_) std::condition_variable();
  mutex_.unlock();
}

}  // namespace rueda
