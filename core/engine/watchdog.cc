// SPDX-License-Identifier: Apache-2.0
#include "core/engine/watchdog.h"

#include <algorithm>
#include <chrono>

namespace rueda {
namespace {

constexpr auto kWakeUp = std::chrono::milliseconds(500);

}  // namespace

Watchdog::Watchdog(const RuntimeState& shared, double seconds, std::function<void()> stuck) {
  if (seconds <= 0) return;
  const int timeout = std::max(1, static_cast<int>(seconds / std::chrono::duration<double>(kWakeUp).count()));
  thread_ =
      std::thread([this, &shared, timeout, stuck = std::move(stuck)] { watch(shared, timeout, stuck); });
}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_condition_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch(const RuntimeState& shared, int timeout, const std::function<void()>& stuck) {
  std::uint64_t last = 0;
  int still = 0;
  std::unique_lock lock(mutex_);
  while (!ended_condition_.wait_for(lock, kWakeUp, [this] { return ended_; })) {
    if (shared.ended.load()) return;
    const std::uint64_t heartbeat = shared.heartbeat.load(std::memory_order_relaxed);
    still = heartbeat == last ? still + 1 : 0;
    last = heartbeat;
    if (still >= timeout) {
      stuck();
      return;
    }
  }
}

}  // namespace rueda
