// SPDX-License-Identifier: Apache-2.0
// The background thread of a rank.
#pragma once

#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/time.h"
#include "core/engine/runtime_state.h"
#include "rueda/status.h"

namespace rueda {

struct Welcome;

// Purpose: a thread from its start to its end. The caller that waits for the start may cancel it. Owned by
// the Runtime, which joins the thread. Any thread may ask.
class BackgroundThread {
 public:
  explicit BackgroundThread(RuntimeState& shared) : shared_(shared) {}

  template <class Body>
  void start(Body body) {
    std::promise<void> end;
    ended_ = end.get_future();
    thread_ = std::thread([body = std::move(body), end = std::move(end)]() mutable {
      body();
      end.set_value();
    });
  }
  // An exception of a WaitCheck cancels the start and leaves this call. The thread does not begin meanwhile.
  void wait_for_start(const std::future<Welcome>& started);
  // Of the thread, when all ranks are there. Returns false if nobody wants it any more.
  bool begin();
  // Its last word: why the job could not go on.
  void end(const Status& failure);

  Status failure() const;
  bool running() const { return thread_.joinable(); }  // nobody has joined it
  // Waits until the thread has nothing more to do. An exception of a WaitCheck leaves this call earlier.
  void wait_for_end() const;
  // The same for a limited time. Returns false if the time was too short.
  bool ends_within(Duration longest) const;
  void join() { thread_.join(); }

 private:
  RuntimeState& shared_;
  mutable std::mutex mutex_;
  bool begun_ = false;  // guarded by mutex_
  Status failure_;      // guarded by mutex_
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace rueda
