// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/process_watch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <new>

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

ProcessWatch::ProcessWatch()
    : forks_(forks_since_first_call()),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      end_(::eventfd(0, EFD_CLOEXEC)) {
  add_to(events_, end_.number());
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProcessWatch::~ProcessWatch() {
  if (forks_ != forks_since_first_call()) {
    new (&thread_) std::thread();  // it is the parent's
    return;
  }
  ::eventfd_write(end_.number(), 1);
  thread_.join();
}

void ProcessWatch::add(int process, std::shared_ptr<Listener> listener) {
  const std::lock_guard lock(mutex_);
  listeners_[process] = std::move(listener);
  add_to(events_, process);
}

void ProcessWatch::remove(int process) {
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
