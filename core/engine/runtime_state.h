// SPDX-License-Identifier: Apache-2.0
// All that framework threads, the background thread and the watchdog of one Runtime share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/engine/requested_timeline.h"
#include "core/engine/submissions/handle_state.h"
#include "core/engine/submissions/submit_queue.h"
#include "core/engine/wait/event_count.h"
#include "core/observe/observer.h"

namespace rueda {

// Purpose: what all threads of a Runtime share; each member says how it is guarded. What framework threads
// alone share lies in the Runtime itself (names, captures, shutdown). Owned by it, outlives its threads.
struct RuntimeState {
  explicit RuntimeState(std::shared_ptr<EventCount> doorbell_of_job)
      : queue(doorbell_of_job), doorbell(std::move(doorbell_of_job)) {}

  SubmitQueue queue;
  ReleaseList released;
  const std::shared_ptr<EventCount> doorbell;
  const std::shared_ptr<Waiters> waiters = std::make_shared<Waiters>(doorbell);
  Observer observer;
  RequestedTimeline requested_timeline{observer.timeline()};  // of the background thread
  std::atomic<bool> departing{false};                         // set once, by shutdown
  std::atomic<bool> aborted{false};                           // set once, by a program that gives the job up
  std::atomic<bool> unwanted{false};        // set once, by who does not wait for the start any more
  std::atomic<bool> ended{false};           // set once, when the background thread has nothing more to do
  std::atomic<std::uint64_t> heartbeat{0};  // counts the background thread's turns
};

}  // namespace rueda
