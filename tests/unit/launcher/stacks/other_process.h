// SPDX-License-Identifier: Apache-2.0
// A process that a test looks into.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>

#include "launcher/stacks/thread_facts.h"

namespace rueda {

// Until `is_so`, for 10 s at most; whether it was.
inline bool comes(const std::function<bool()>& is_so) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Numbers that several processes see.
struct Shared {
  std::atomic<long> counter = 0;
  std::atomic<long> signals = 0;
  std::atomic<pid_t> process = 0;
};

inline Shared& make_shared_numbers() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) Shared;
}

// Runs `body` in a child until the end of the test.
class OtherProcess {
 public:
  explicit OtherProcess(const std::function<void()>& body) {
    id_ = ::fork();
    if (id_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    ::_exit(0);
  }
  ~OtherProcess() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  pid_t id() const { return id_; }
  char state() const {
    const auto facts = facts_of_thread(id_, id_);
    return facts ? facts->state : '-';
  }
  bool comes_to(char state) const {
    return comes([&] { return this->state() == state; });
  }

 private:
  pid_t id_;
};

// Counts for ever.
inline void count_up(Shared& shared) {
  while (true) {
    ++shared.counter;
    ::usleep(50);
  }
}

inline bool counts(const Shared& shared) {
  const long before = shared.counter;
  return comes([&] { return shared.counter > before + 3; });
}

}  // namespace rueda
