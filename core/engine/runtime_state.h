// SPDX-License-Identifier: Apache-2.0
// All that framework threads, the coordinator and the watchdog of one Runtime share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/engine/bell.h"
#include "core/engine/handle_state.h"
#include "core/engine/submit_queue.h"
#include "core/observe/observer.h"

namespace rueda {

// Purpose: the complete list of what is shared between threads; each member says how it is guarded. Owned by
// the Runtime, outlives its threads.
struct RuntimeState {
  explicit RuntimeState(std::shared_ptr<Bell> bell) : bell(std::move(bell)) {}

  SubmitQueue queue;
  ReleaseList released;
  const std::shared_ptr<Bell> bell;
  const std::shared_ptr<Waiters> waiters = std::make_shared<Waiters>(bell);
  Observer observer;
  std::atomic<bool> departing{false};       // set once, by shutdown
  std::atomic<bool> unwanted{false};        // set once, by who does not wait for the start any more
  std::atomic<bool> ended{false};           // set once, when the coordinator has nothing more to do
  std::atomic<std::uint64_t> heartbeat{0};  // counts the coordinator's turns
};

}  // namespace rueda
