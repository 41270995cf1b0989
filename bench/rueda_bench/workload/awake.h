// SPDX-License-Identifier: Apache-2.0
// Between our turn and MPI's on the same processes.
#pragma once

#include <sched.h>

#include <chrono>

namespace rueda::bench {

// Returns when no background thread polls, and all ranks have ended their turn: who is done first would take
// the core of others with what it sends next. Awake: cores that were idle wake late, and those of a training
// never are.
inline void rest_awake() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
  while (std::chrono::steady_clock::now() < end) sched_yield();
}

}  // namespace rueda::bench
