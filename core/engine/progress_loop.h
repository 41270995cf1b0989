// SPDX-License-Identifier: Apache-2.0
// When the ProgressEngine makes progress, on whose thread, and when the background thread sleeps.
#pragma once

#include <chrono>
#include <exception>

#include "core/engine/progress_engine.h"
#include "core/engine/wait/progress_lock.h"
#include "core/engine/wait/spin_policy.h"

namespace rueda {

// Purpose: the background thread's loop. Threads that wait run turns of the engine, too (ProgressLock).
// When nothing moves it looks again soon if somebody may need this rank within microseconds, else it sleeps
// on the event count. It spins shortly after a move also when nothing is pending: the next submission often
// follows. On the stack of the background thread.
class ProgressLoop : private TurnTaker {
 public:
  // `local_size`: the ranks of this host.
  ProgressLoop(ProgressEngine& engine, RuntimeState& shared, Duration longest_spin, Rank local_size);

  // Returns when the engine has finished.
  void run();

 private:
  Outcome turn_of_waiter(Time now) noexcept override;
  bool in_vain() override { return spin_.in_vain(); }
  bool may_rest(bool served) override;
  bool all_is_quiet() override;
  bool waiters_may_run() const { return engine_.waiters_may_run() && !waiter_failure_; }
  void note_move(Time now);
  void prepare_to_rest();
  std::chrono::nanoseconds longest_sleep(Time now) const;

  ProgressEngine& engine_;
  RuntimeState& shared_;
  SpinPolicy spin_;
  Time own_round_{};                   // the last one on the background thread
  std::exception_ptr waiter_failure_;  // what a round on another thread has thrown
};

}  // namespace rueda
