// SPDX-License-Identifier: Apache-2.0
// Ends a test process that takes too long, and says what its rank was doing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"

namespace rueda {

// Purpose: stands in main of every program that tests start as several processes. One thread; ends with the
// object.
class ProcessWatchdog {
 public:
  explicit ProcessWatchdog(std::chrono::seconds timeout) : thread_([this, timeout] { watch(timeout); }) {}
  ~ProcessWatchdog() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void watch(std::chrono::seconds timeout) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, timeout, [this] { return ended_; })) return;
    const std::string report = is_initialized() ? default_runtime().report() : "not initialized\n";
    std::fprintf(stderr, "tests: took longer than %lld s; %s", static_cast<long long>(timeout.count()),
                 report.c_str());
    std::fflush(stderr);
    std::_Exit(99);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace rueda
