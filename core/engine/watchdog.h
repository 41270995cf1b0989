// SPDX-License-Identifier: Apache-2.0
// Ends a process whose background thread is stuck, and says where.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/engine/runtime_state.h"

namespace rueda {

// Purpose: a thread that looks at the background thread's heartbeat every half second. It counts its own
// wake-ups, not the clock, so that a suspended machine is no reason. When the heartbeat has not moved for
// `seconds`, `stuck` is called (once, on the watchdog's thread). Starts with the Runtime, ends in its
// destructor.
class Watchdog {
 public:
  Watchdog(const RuntimeState& shared, double seconds, std::function<void()> stuck);
  ~Watchdog();

 private:
  void watch(const RuntimeState& shared, int timeout, const std::function<void()>& stuck);

  std::mutex mutex_;
  std::condition_variable ended_condition_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace rueda
