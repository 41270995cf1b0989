// SPDX-License-Identifier: Apache-2.0
// Completes the Futures of a group's operations.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/time.h"

namespace rueda {

class GroupWork;

// Whether this thread's next calls of getFuture() return when the operation is complete, so that callbacks
// run in the call: as they do where a device has been given the operation before. Returns what was so before.
bool complete_futures_in_calls(bool whether);
// Such a call runs its wait by that function from now on: the caller may have a lock that other threads need.
using RunWait = void (*)(const std::function<void()>& wait);
void run_waits_of_calls_by(RunWait run);
RunWait run_wait_of_call();

// Purpose: a Future has callbacks, so somebody has to notice the end of its operation: a thread that waits
// for the oldest one, and looks after the others now and then. A Future whose operation has timed out ends
// with an error. Python's callbacks run there, and take Python's lock: so this is never the background
// thread. The thread begins with the first Future. Any thread may add; guarded by the mutex. Owned by the
// GroupJob.
class FutureCompleter {
 public:
  FutureCompleter() = default;
  ~FutureCompleter() { stop(Duration::zero()); }
  FutureCompleter(const FutureCompleter&) = delete;
  FutureCompleter& operator=(const FutureCompleter&) = delete;

  // False: it has ended, and does nothing.
  bool add(c10::intrusive_ptr<GroupWork> work);
  // Whether the caller is a callback on the thread.
  bool on_its_thread() const;
  // Whether getFuture() completes the Future itself: for a callback nobody else would.
  bool leaves_it_to_the_caller() const;
  // No more are added. The thread waits for the operations for so long; the Futures of others then end with
  // an error. Does not wait for the thread.
  void end(Duration grace);
  // The same, and joins the thread: the caller must not hold Python's lock. A callback joins nothing.
  void stop(Duration grace);
  // Returns true until the thread has come to its end.
  bool running();

 private:
  using Works = std::deque<c10::intrusive_ptr<GroupWork>>;

  void run();
  void complete_all();
  bool take_next(Works& works);
  void complete_finished(Works& works) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  Works added_;
  bool ending_ = false;
  bool closed_ = false;  // the thread takes no more
  bool over_ = false;
  Time until_{};  // from then on, when it ends
  std::thread thread_;
};

}  // namespace rueda
