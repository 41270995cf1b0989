// SPDX-License-Identifier: Apache-2.0
// Timelines that somebody who watches the job asks for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "core/observe/timeline.h"
#include "core/observe/training/timeline_request.h"

namespace rueda {

// Purpose: starts a timeline when the step of a request begins, and stops it at the end of the last one. A
// thread waits for the steps; it lives as long as a request. One Runtime of a process obeys, the one that
// began first: that of all ranks. Lives in the Runtime.
class RequestedTimeline {
 public:
  explicit RequestedTimeline(Timeline& timeline);
  ~RequestedTimeline();
  RequestedTimeline(const RequestedTimeline&) = delete;
  RequestedTimeline& operator=(const RequestedTimeline&) = delete;

  // By whoever makes the turns of the background thread, one at a time.
  void look() {
    if (page_.count() != seen_) obey();
  }

 private:
  void obey();
  void run(const TimelineRequest& request);
  bool await_step(std::uint64_t step);  // false: it is to end, or steps do not come

  Timeline& timeline_;
  const TimelineRequestPage& page_;
  std::uint64_t seen_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::atomic<bool> is_busy_{false};  // the thread
  std::thread thread_;
};

}  // namespace rueda
