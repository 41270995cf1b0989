// SPDX-License-Identifier: Apache-2.0
// All that framework threads, the background thread and the watchdog of one Runtime share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/engine/submissions/handle_state.h"
#include "core/engine/submissions/submit_queue.h"
#include "core/engine/wait/event_count.h"
#include "core/observe/observer.h"

namespace rueda {

// Purpose: the complete list of what is shared between threads; each member says how it is guarded. Owned by
// the Runtime, outlives its threads.
struct RuntimeState {
  explicit RuntimeState(std::shared_ptr<EventCount> bell) : queue(bell), doorbell(std::move(bell)) {}

  SubmitQueue queue;
  ReleaseList released;
  const std::shared_ptr<EventCount> doorbell;
  const std::shared_ptr<Waiters> waiters = std::make_shared<Waiters>(doorbell);
  Observer observer;
  std::atomic<bool> departing{false};       // set once, by shutdown
  std::atomic<bool> aborted{false};         // set once, by a program that gives the job up
  std::atomic<bool> unwanted{false};        // set once, by who does not wait for the start any more
  std::atomic<bool> ended{false};           // set once, when the background thread has nothing more to do
  std::atomic<std::uint64_t> heartbeat{0};  // counts the background thread's turns
};

}  // namespace rueda
