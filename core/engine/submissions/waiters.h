// SPDX-License-Identifier: Apache-2.0
// The threads that wait until an operation is complete.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/engine/wait/progress_lock.h"
#include "rueda/status.h"

namespace rueda {

class HandleState;

// Purpose: the turns that threads take which wait for an operation, and the operations that they sleep on, so
// that the watchdog of a stuck background thread can end their wait. Guarded by its mutex. Shared by a
// Runtime and its Handles, which may outlive it.
class Waiters {
 public:
  // As ProgressLock takes them.
  explicit Waiters(std::shared_ptr<EventCount> doorbell, Duration longest_rest = kLongestRest)
      : turns_(std::move(doorbell), longest_rest) {}

  // `state` stays alive until remove(), and is complete at once after fail().
  void add(HandleState* state);
  void remove(HandleState* state);
  // Completes all that somebody waits for, now or later, without giving tensors back: the background thread
  // may still be at them.
  void fail(Status status);
  ProgressLock& turns() { return turns_; }

 private:
  ProgressLock turns_;  // guards itself
  std::mutex mutex_;
  std::vector<HandleState*> states_;  // several threads may wait for one
  Status failure_;
};

}  // namespace rueda
