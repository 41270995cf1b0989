// SPDX-License-Identifier: Apache-2.0
// How a sleeping background thread is woken.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/system/futex.h"

namespace rueda {

// The words of a doorbell, all zero at first. May lie in memory that processes share.
struct EventCountWord {
  FutexWord rings{0};
  std::atomic<std::uint32_t> sleeping{0};
};

// Purpose: one EventCountWord for each Runtime; every process that wants to ring has an EventCount of its own
// over it. Any thread may ring; the Runtime's background thread alone sleeps. A ring costs one load while
// nobody sleeps; the first one wakes the sleeper, and those that follow before it runs cost that load again.
// To sleep without missing a ring: `listen()`, look at every condition once more, then `sleep(heard)`; or
// `stay_awake()`. Whoever rings first stores what the sleeper looks at. All these accesses are seq_cst, so
// one of the two sees the other. A ringer that is killed between its two steps leaves the sleeper to its time
// limit, once. Keeps the word alive.
class EventCount {
 public:
  EventCount() : word_(std::make_shared<EventCountWord>()) {}
  explicit EventCount(std::shared_ptr<EventCountWord> word) : word_(std::move(word)) {}

  void ring();
  // Wakes the sleeper, or keeps it from a sleep for which it has heard already, whether it listens or not.
  void wake();

  std::uint32_t listen();
  // Returns the same count as listen(), without making anybody ring.
  std::uint32_t heard() const { return word_->rings.load(); }
  void stay_awake();
  bool listening() const { return word_->sleeping.load() != 0; }
  // Returns when rung since listen(), or after `longest`.
  void sleep(std::uint32_t heard, std::chrono::nanoseconds longest);

 private:
  std::shared_ptr<EventCountWord> word_;
};

}  // namespace rueda
