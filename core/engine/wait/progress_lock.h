// SPDX-License-Identifier: Apache-2.0
// One token says which thread runs the progress engine.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/system/owner_thread.h"
#include "core/base/time.h"
#include "core/engine/wait/completion.h"
#include "core/engine/wait/event_count.h"

namespace rueda {

// Nobody sleeps longer than this before it looks again.
constexpr Duration kLongestRest = std::chrono::milliseconds(100);

// The object that threads run turn by turn: the ProgressLoop. Called by the thread that has the turn.
class TurnTaker {
 public:
  enum class Outcome {
    moved,
    still,
    not_for_waiter,  // what comes next is for its own thread
  };

  // A turn, now, on the thread of somebody who waits.
  virtual Outcome turn_of_waiter(Time now) noexcept = 0;
  // After a turn in which nothing moved: whether to let others run now.
  virtual bool in_vain() = 0;
  // After a turn in which nothing moved: whether its own thread may rest on until the doorbell rings.
  // `served`: who had the turn has got what it waited for.
  virtual bool may_rest(bool served) = 0;
  // The same after who had the turn has got what it waited for, by a look that takes less than a turn: false
  // where that cannot tell.
  virtual bool all_is_quiet() = 0;

 protected:
  ~TurnTaker() = default;
};

// Purpose: lets one thread at a time work as the background thread. The background thread has a thread of its
// own, the own thread. A thread that waits for an operation may work instead, on the core that it would give
// away. A synchronous operation then needs two changes of threads less. The turn is one token. Its holder
// works as the background thread (ActingAs, so that each OwnerThread takes it for the owner). The holder sees
// all that was done before. The own thread has the token, looks for it, or rests, asleep on the doorbell.
// While a waiting thread has the token, nobody need ring. Before the waiting thread lets go, it makes the
// doorbell ring again for the resting thread, and looks once more. The own thread alone handles failures of
// the job, code of the program and devices. Shared by a Runtime and its Handles, which may outlive it.
class ProgressLock {
 public:
  // Nobody has a turn before begin(). While another has the turn, the own thread rests up to `longest_rest`.
  explicit ProgressLock(std::shared_ptr<EventCount> doorbell, Duration longest_rest = kLongestRest)
      : doorbell_(std::move(doorbell)), longest_rest_(longest_rest) {}

  // The own thread, which has the turn from then on. `taker` outlives end().
  void begin(TurnTaker& taker);
  // Lets go, and others run if `yields`. Then takes the turn again, if need be after a rest.
  void next(bool yields);
  // Lets go and sleeps: until the doorbell has rung since it was `heard`, or for `longest`. Then takes the
  // turn.
  void rest(std::uint32_t heard, std::chrono::nanoseconds longest);
  // With the turn, which nobody gets any more.
  void end() { taker_ = nullptr; }

  // A waiting thread: takes turns until `completion` is done, or nothing has moved for `longest` or, up to 2
  // ms, for half of what went before. While it gets none it looks, with yields, for as long. Whether it has
  // had one.
  bool take_until_done(const Completion& completion, Duration longest);

  // Does `action` with the turn, which comes when whoever has it lets go; not if `completion` is done before
  // that.
  void do_with_turn(const Completion& completion, const std::function<void()>& action);

  // Wakes the own thread if it sleeps and nobody has the turn.
  void ring() { doorbell_->ring(); }

  // Returns true if the caller works as the background thread. The own thread must not be joined yet.
  bool mine() const;

 private:
  // Purpose: until when a thread takes turns in vain: for `longest`, or half of what it has been at before
  // the last move, but for kLongestVain at most, since other ranks take about as long as this one, and to be
  // woken takes longer than a short operation. On the stack of the thread that waits.
  class Wait {
   public:
    Wait(Time begun, Duration longest) : begun_(begun), longest_(longest), until_(begun + longest) {}
    void moved(Time now) {
      until_ = now + std::max(longest_, std::min<Duration>((now - begun_) / 2, kLongestVain));
    }
    // The rest of the work is for another thread.
    void left_to_others(Time now) { until_ = std::min(until_, now + longest_); }
    Time until() const { return until_; }

   private:
    static constexpr Duration kLongestVain = std::chrono::milliseconds(2);

    Time begun_;
    Duration longest_;
    Time until_;
  };

  bool take();
  void give();
  void take_back();
  void sleep(std::uint32_t heard, std::chrono::nanoseconds longest);
  bool take_turns(const Completion& completion, Wait& wait);
  void hand_back(bool served);

  std::atomic<bool> taken_{true};                  // the token; before begin() and after end(), too
  std::atomic<bool> resting_{false};               // the own thread sleeps, or is about to
  std::atomic<ThreadIdentity> identity_{nullptr};  // the own thread's
  std::uint32_t arithmetic_ = 0;                   // the own thread's; written in begin()
  TurnTaker* taker_ = nullptr;                     // with the token
  const std::shared_ptr<EventCount> doorbell_;
  const Duration longest_rest_;
};

}  // namespace rueda
