// SPDX-License-Identifier: Apache-2.0
#include "core/engine/wait/progress_lock.h"

#include <pthread.h>
#include <sched.h>

#include <thread>

#include "core/base/system/fp_environment.h"

namespace rueda {
namespace {

// Purpose: while it lives, its thread is the background thread's as far as results and turns depend on it:
// numbers are rounded as there (the program may flush denormals to zero on its own threads), and nobody
// cancels it.
class InItsPlace {
 public:
  InItsPlace(ThreadIdentity identity, std::uint32_t arithmetic) : acting_(identity) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels_);
    use_arithmetic(arithmetic);
  }
  ~InItsPlace() {
    use_arithmetic(before_);
    pthread_setcancelstate(cancels_, nullptr);
  }
  InItsPlace(const InItsPlace&) = delete;
  InItsPlace& operator=(const InItsPlace&) = delete;

 private:
  ActingAs acting_;
  const std::uint32_t before_ = arithmetic();
  int cancels_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace

void ProgressLock::begin(TurnTaker& taker) {
  taker_ = &taker;
  arithmetic_ = arithmetic();
  identity_.store(thread_identity());
}

bool ProgressLock::mine() const { return identity_.load() == thread_identity(); }

bool ProgressLock::take() { return !taken_.load() && !taken_.exchange(true); }

void ProgressLock::give() { taken_.store(false); }

void ProgressLock::next(bool yields) {
  give();
  if (yields) sched_yield();
  take_back();
}

void ProgressLock::rest(std::uint32_t heard, std::chrono::nanoseconds longest) {
  resting_.store(true);
  give();
  sleep(heard, longest);
  take_back();
}

// Whoever has the turn then sees, after letting go, that this thread rests, and wakes it.
void ProgressLock::take_back() {
  while (!take()) {
    const std::uint32_t heard = doorbell_->heard();
    resting_.store(true);
    if (take()) {
      resting_.store(false);
      return;
    }
    sleep(heard, longest_rest_);
  }
}

void ProgressLock::sleep(std::uint32_t heard, std::chrono::nanoseconds longest) {
  doorbell_->sleep(heard, longest);
  resting_.store(false);
}

bool ProgressLock::take_until_done(const Completion& completion, Duration longest) {
  Time now = clock_now();
  Wait wait{now, longest};
  bool taken = false, more = true;
  for (; !completion.done() && now < wait.until(); now = clock_now()) {
    if (more && take()) {
      taken = true;
      more = take_turns(completion, wait);
    } else {
      sched_yield();
    }
  }
  return taken;
}

void ProgressLock::do_with_turn(const Completion& completion, const std::function<void()>& action) {
  constexpr Duration kPause = std::chrono::microseconds(100);
  while (!take()) {
    if (completion.done()) return;
    std::this_thread::sleep_for(kPause);
  }
  action();
  give();
  if (resting_.load()) doorbell_->wake();
}

// Whether there may be more of them.
bool ProgressLock::take_turns(const Completion& completion, Wait& wait) {
  const InItsPlace engine(identity_.load(), arithmetic_);
  doorbell_->stay_awake();
  TurnTaker::Outcome outcome = TurnTaker::Outcome::still;
  Time now = clock_now();  // with the turn: another one may just have ended
  while (outcome != TurnTaker::Outcome::not_for_waiter && !completion.done() && now < wait.until()) {
    outcome = taker_->turn_of_waiter(now);
    if (outcome == TurnTaker::Outcome::still && taker_->in_vain()) sched_yield();
    now = clock_now();
    if (outcome == TurnTaker::Outcome::moved) wait.moved(now);
  }
  hand_back(completion.done());
  if (outcome != TurnTaker::Outcome::not_for_waiter) return true;
  wait.left_to_others(now);
  return false;
}

// The own thread sleeps on only if the doorbell rings for it, after which nothing was to do. After give()
// this is all that may still be there.
void ProgressLock::hand_back(bool served) {
  bool wake = false;
  if (resting_.load()) {
    doorbell_->listen();
    wake = !(served && taker_->all_is_quiet()) &&
           (taker_->turn_of_waiter(clock_now()) != TurnTaker::Outcome::still || !taker_->may_rest(served));
  }
  give();
  if (wake || (resting_.load() && !doorbell_->listening())) doorbell_->wake();
}

}  // namespace rueda
