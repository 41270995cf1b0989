// SPDX-License-Identifier: Apache-2.0
// Who waits until an operation is complete.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/engine/turns.h"

namespace rueda {

class HandleState;

// Purpose: the turns that threads take which wait for an operation, and the operations that they sleep on, so
// that the watchdog of a stuck coordinator can end their wait. Guarded by its mutex. Shared by a Runtime and
// its Handles, which may outlive it.
class Waiters {
 public:
  // As Turns takes them.
  explicit Waiters(std::shared_ptr<Bell> bell, Duration longest_rest = kLongestRest)
      : turns_(std::move(bell), longest_rest) {}

  // `state` stays alive until remove(), and is complete at once after fail().
  void add(HandleState* state);
  void remove(HandleState* state);
  // Completes all that somebody waits for, now or later, without giving tensors back: the coordinator may
  // still be at them.
  void fail(Status status);
  Turns& turns() { return turns_; }

 private:
  Turns turns_;  // guards itself
  std::mutex mutex_;
  std::vector<HandleState*> states_;  // several threads may wait for one
  Status failure_;
};

}  // namespace rueda
