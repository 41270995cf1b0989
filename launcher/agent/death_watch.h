// SPDX-License-Identifier: Apache-2.0
// Tells early that workers of this host have died.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "core/base/system/robust_futex.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: waits for the RobustFutex of each worker, on a thread of its own: a system call waits for futexes
// or for descriptors, not for both. A worker that is dead is told once. It does not see all of them: where
// the kernel is too old, or there are more than a hundred, waitpid() tells later. Owned by the agent's
// thread.
class DeathWatch {
 public:
  DeathWatch();
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  // `number`: to be told. The futex outlives its end, and this object.
  void add(std::size_t number, RobustFutex* futex);
  // Readable when take_dead() has something to tell.
  int descriptor() const;
  std::vector<std::size_t> take_dead();

 private:
  struct State;
  static void watch(State& state);

  const std::unique_ptr<State> state_;
  std::thread thread_;
};

}  // namespace rueda
