// SPDX-License-Identifier: Apache-2.0
// A thread of the program looks after signals while it waits for other ranks: for languages that run signal
// handlers between calls only.
#pragma once

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>

#include "core/base/time.h"

namespace rueda {

// Purpose: two functions of a frontend. Without them a wait ends when what it waits for has come.
struct WaitCheck {
  // Tells whether the calling thread looks after anything. Any thread asks at the start of a long wait.
  bool (*concerns_this_thread)() noexcept;
  // Such a thread calls look() while it waits, every kCheckEvery. An exception of look() leaves the function
  // that waits; the operation goes on.
  void (*look)();
};

inline constexpr Duration kCheckEvery = std::chrono::milliseconds(100);

// For all waits of the process from now on. `check` lives as long as the process.
void set_wait_check(const WaitCheck& check);
// The check of this thread; null: it has nothing to look after.
const WaitCheck* wait_check_here();

// Purpose: the looks of one wait in which the thread comes by often. On the stack of the thread that waits.
class RegularLooks {
 public:
  void look_if_due() {
    if (check_ == nullptr || clock_now() < next_) return;
    check_->look();
    next_ = clock_now() + kCheckEvery;
  }

 private:
  const WaitCheck* check_ = wait_check_here();
  Time next_ = clock_now() + kCheckEvery;
};

// Waits for the future, and looks; whether it is ready. False only after the deadline, if there is one.
template <class Future>
bool wait_for_future(const Future& future, std::optional<Time> deadline = std::nullopt) {
  const WaitCheck* check = wait_check_here();
  while (true) {
    const Time now = clock_now();
    const Time next = check != nullptr ? now + kCheckEvery : now + std::chrono::hours(1);
    if (future.wait_until(deadline ? std::min(*deadline, next) : next) == std::future_status::ready)
      return true;
    if (deadline && clock_now() >= *deadline) return false;
    if (check != nullptr) check->look();
  }
}

}  // namespace rueda
