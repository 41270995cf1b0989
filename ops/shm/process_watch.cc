// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/process_watch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <new>
#include <system_error>

#include "core/base/log.h"
#include "core/base/system/fork_guard.h"

namespace rueda {
namespace {

void add_to(const Descriptor& events, int descriptor) {
  epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.fd = descriptor}};
  ::epoll_ctl(events.number(), EPOLL_CTL_ADD, descriptor, &event);
}

}  // namespace

std::shared_ptr<ProcessWatch> ProcessWatch::of_this_process() {
  static std::mutex mutex;
  static std::weak_ptr<ProcessWatch> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<ProcessWatch> watch = shared.lock();
  if (!watch || watch->forks_ != forks_since_first_call()) shared = watch = std::make_shared<ProcessWatch>();
  return watch;
}

// Without descriptors or a thread nobody hears of anything: users look by themselves now and then.
ProcessWatch::ProcessWatch()
    : forks_(forks_since_first_call()),
      end_(::eventfd(0, EFD_CLOEXEC)),
      events_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!end_ || !events_) return;
  add_to(events_, end_.number());
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    log(LogLevel::warning, "no thread for the ends of other processes, so they are noticed later: {}",
        error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProcessWatch::~ProcessWatch() {
  if (is_of_parent()) {
    new (&thread_) std::thread();
  } else if (thread_.joinable()) {
    ::eventfd_write(end_.number(), 1);
    thread_.join();
  }
}

bool ProcessWatch::is_of_parent() const { return forks_ != forks_since_first_call(); }

void ProcessWatch::add(int process, std::shared_ptr<Listener> listener) {
  if (is_of_parent()) return;
  const std::lock_guard lock(mutex_);
  listeners_[process] = std::move(listener);
  add_to(events_, process);
}

// A forked child shares the descriptors with its parent, which still listens.
void ProcessWatch::remove(int process) {
  if (is_of_parent()) return;
  const std::lock_guard lock(mutex_);
  if (listeners_.erase(process) != 0) ::epoll_ctl(events_.number(), EPOLL_CTL_DEL, process, nullptr);
}

void ProcessWatch::run() {
  std::array<epoll_event, 16> fresh{};
  while (true) {
    const int count = ::epoll_wait(events_.number(), fresh.data(), static_cast<int>(fresh.size()), -1);
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; ++i) {
      const int descriptor = fresh.at(static_cast<std::size_t>(i)).data.fd;
      if (descriptor == end_.number()) return;
      tell(descriptor);
    }
  }
}

void ProcessWatch::tell(int process) {
  const std::lock_guard lock(mutex_);
  const auto found = listeners_.find(process);
  if (found == listeners_.end()) return;
  found->second->heard.store(true);
  found->second->doorbell.ring();
}

}  // namespace rueda
