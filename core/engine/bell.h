// SPDX-License-Identifier: Apache-2.0
// How a sleeping coordinator is woken.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace rueda {

// Purpose: one per Runtime. Anyone may ring; the coordinator alone sleeps. A ring costs one load while nobody
// sleeps. To sleep without missing a ring: `listen()`, look at every condition once more, then
// `sleep(heard)`; or `stay_awake()`. Whoever rings first stores what the sleeper looks at. All accesses are
// seq_cst, so one of the two sees the other.
class Bell {
 public:
  void ring();

  std::uint32_t listen();
  void stay_awake();
  // Returns when rung since listen(), or after `longest`.
  void sleep(std::uint32_t heard, std::chrono::nanoseconds longest);

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> sleeping_{0};
};

}  // namespace rueda
