// SPDX-License-Identifier: Apache-2.0
// Who sleeps until an operation is complete.
#pragma once

#include <mutex>
#include <vector>

#include "core/base/status.h"

namespace rueda {

class HandleState;

// Purpose: the operations that threads sleep on, so that the watchdog of a stuck coordinator can end their
// wait. Guarded by its mutex. Shared by a Runtime and its Handles, which may outlive it.
class Waiters {
 public:
  // `state` stays alive until remove(), and is complete at once after fail().
  void add(HandleState* state);
  void remove(HandleState* state);
  // Completes all that somebody waits for, now or later, without giving tensors back: the coordinator may
  // still be at them.
  void fail(Status status);

 private:
  std::mutex mutex_;
  std::vector<HandleState*> states_;  // several threads may wait for one
  Status failure_;
};

}  // namespace rueda
