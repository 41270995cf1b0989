// SPDX-License-Identifier: Apache-2.0
// Threads that wait take the background thread's turns: one at a time, and nothing is left undone.
#include "core/engine/wait/progress_lock.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/submissions/handle_state.h"
#include "core/engine/submissions/submission.h"
#include "core/engine/submissions/waiters.h"
#include "tests/support/sanitized.h"

namespace rueda {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr int kTurns = sanitized(5'000, 30'000);
constexpr seconds kLimit(20);  // of every sleep: one that ends by it has missed something

using State = std::shared_ptr<HandleState>;

// Purpose: completes what it is given, each job in one of the ways there are: after some turns; when another
// rank has answered, which rings; at a time of which no doorbell tells; on its own thread only. All but the
// queue and the answers belongs to whoever has the turn: ThreadSanitizer sees a turn that is taken by two.
class Coordinator : public TurnTaker {
 public:
  ProgressLock& turns() { return waiters_->turns(); }
  EventCount& doorbell() { return *doorbell_; }
  const std::shared_ptr<Waiters>& waiters() { return waiters_; }
  void push(State state) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(state));
  }
  void end() {
    ending_.store(true);
    doorbell_->ring();
  }

  // The own thread.
  void run() {
    turns().begin(*this);
    while (true) {
      const std::uint32_t heard = doorbell_->listen();
      const bool ending = ending_.load();
      const bool moved = turn(true);
      if (!moved && ending) break;
      if (moved || looks_++ % 4 != 0) {
        doorbell_->stay_awake();
        turns().next(!moved);
      } else {
        const Time begin = clock_now();
        turns().rest(heard, timed() ? Duration(microseconds(20)) : kLimit);
        missed_ |= clock_now() - begin >= kLimit;
      }
    }
    turns().end();
  }
  // Another rank: answers what has been asked, and rings once for it; and says something of its own accord,
  // when what it said before has been heard.
  void answer() {
    while (!ending_.load()) {
      if (const int asked = asked_.load(); answered_.exchange(asked) != asked) doorbell_->ring();
      if (heard_.load() == said_.load()) {
        said_.fetch_add(1);
        doorbell_->ring();
      }
      std::this_thread::sleep_for(microseconds(1));
    }
  }

  // Whether what has been said until now is heard in time.
  bool hears() const {
    const int said = said_.load();
    for (const Time end = clock_now() + kLimit / 2; heard_.load() < said;) {
      if (clock_now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  Outcome turn_of_waiter(Time) noexcept override {
    ++of_waiter_;
    const bool moved = turn(false);
    if (refused_) return Outcome::not_for_waiter;
    return moved ? Outcome::moved : Outcome::still;
  }
  bool in_vain() override { return looks_++ % 2 != 0; }
  bool may_rest(bool /*served*/) override { return !timed(); }
  bool all_is_quiet() override {
    std::lock_guard lock(mutex_);
    return queue_.empty() && jobs_.empty() && !ending_.load() && heard_.load() == said_.load();
  }

  bool missed() const { return missed_; }
  std::size_t of_waiter() const { return of_waiter_; }

 private:
  enum class Ends { after_turns, when_answered, at_a_time, on_its_own_thread };
  struct Job {
    State state;
    Ends ends;
    unsigned turns;
    int question;
    Time due;
  };

  bool turn(bool own) {
    owner_.check();
    std::vector<State> taken;
    {
      std::lock_guard lock(mutex_);
      taken.swap(queue_);
    }
    refused_ = false;
    const int said = said_.load();
    bool moved = heard_.exchange(said) != said || !taken.empty();
    for (State& state : taken) {
      Job job{
          std::move(state), static_cast<Ends>(random_() % 4), static_cast<unsigned>(random_() % 4), 0, {}};
      if (job.ends == Ends::when_answered) job.question = asked_.fetch_add(1) + 1;
      if (job.ends == Ends::at_a_time) job.due = clock_now() + microseconds(random_() % 60);
      jobs_.push_back(std::move(job));
    }
    std::erase_if(jobs_, [&](Job& job) {
      const bool over = is_over(job, own, moved);
      if (over) job.state->complete({}, nullptr);
      moved |= over;
      return over;
    });
    return moved;
  }

  bool is_over(Job& job, bool own, bool& moved) {
    switch (job.ends) {
      case Ends::after_turns: moved = true; return job.turns-- == 0;
      case Ends::when_answered: return answered_.load() >= job.question;
      case Ends::at_a_time: return clock_now() >= job.due;
      default: refused_ |= !own; return own;
    }
  }

  bool timed() const {
    return std::ranges::any_of(jobs_, [](const Job& job) { return job.ends == Ends::at_a_time; });
  }

  const std::shared_ptr<EventCount> doorbell_ = std::make_shared<EventCount>();
  const std::shared_ptr<Waiters> waiters_ = std::make_shared<Waiters>(doorbell_, kLimit);
  std::mutex mutex_;
  std::vector<State> queue_;
  std::atomic<int> asked_{0}, answered_{0}, said_{0}, heard_{0};
  std::atomic<bool> ending_{false};
  OwnerThread owner_;
  std::minstd_rand random_;
  std::vector<Job> jobs_;
  unsigned looks_ = 0;
  std::size_t of_waiter_ = 0;
  bool refused_ = false, missed_ = false;
};

// As programs do. False where that takes as long as a missed ring.
bool submit_and_wait(Coordinator& caller, bool awaited) {
  const Time begin = clock_now();
  Submission submission;
  submission.awaited = awaited;
  const auto state = std::make_shared<HandleState>(caller.waiters(), std::move(submission));
  caller.push(state);
  if (!awaited) caller.doorbell().ring();
  state->wait();
  return clock_now() - begin < kLimit / 2;
}

class TurnsOf : public testing::TestWithParam<int> {};

TEST_P(TurnsOf, NothingIsLeftUndone) {
  Coordinator caller;
  std::thread own([&] { caller.run(); }), other_rank([&] { caller.answer(); });
  std::vector<std::thread> threads;
  std::atomic<int> late{0};
  for (int thread = 0; thread < GetParam(); ++thread) {
    threads.emplace_back([&, thread] {
      std::minstd_rand random(static_cast<unsigned>(thread) + 1);
      for (int round = 0; round < kTurns / GetParam() && late.load() == 0; ++round) {
        if (!submit_and_wait(caller, random() % 2 == 0)) ++late;
        if (random() % 16 == 0 && !caller.hears()) ++late;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  caller.end();
  other_rank.join();
  own.join();
  EXPECT_EQ(late.load(), 0);
  EXPECT_FALSE(caller.missed());
  EXPECT_GT(caller.of_waiter(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Waiters, TurnsOf, testing::Values(1, 3));

TEST(ProgressLock, NobodyGetsOneBeforeTheBeginningAndAfterTheEnd) {
  Coordinator caller;
  const HandleState state;
  EXPECT_FALSE(caller.turns().take_until_done(state, microseconds(100)));
  std::thread own([&] { caller.run(); });
  caller.end();
  own.join();
  EXPECT_FALSE(caller.turns().take_until_done(state, microseconds(100)));
  EXPECT_EQ(caller.of_waiter(), 0U);
}

// Purpose: the own thread, which does nothing but rest from the beginning to the end. `first` runs on it.
class Resting {
 public:
  Resting(
      ProgressLock& turns, EventCount& doorbell, TurnTaker& taker, std::function<void()> first = [] {})
      : doorbell_(doorbell) {
    own_ = std::thread([this, &turns, &taker, first = std::move(first)] {
      first();
      turns.begin(taker);
      const std::uint32_t heard = doorbell_.listen();
      rests_.store(true);
      turns.rest(heard, kLimit);
      turns.end();
    });
    while (!rests_.load()) sched_yield();
  }
  ~Resting() {
    doorbell_.wake();
    own_.join();
  }

 private:
  EventCount& doorbell_;
  std::atomic<bool> rests_{false};
  std::thread own_;
};

// What counts is what numbers become.
bool rounds_up() {
  volatile float one = 1.0f, little = 1e-20f;
  return one + little > one;
}

// Purpose: tells what a turn of a waiter finds.
class Looker : public TurnTaker {
 public:
  explicit Looker(ProgressLock& turns) : turns_(turns) {}

  Outcome turn_of_waiter(Time) noexcept override {
    mine_ = turns_.mine();
    owner_.check();
    rounds_up_ = rounds_up();
    state_->complete({}, nullptr);
    return Outcome::moved;
  }
  bool in_vain() override { return true; }
  bool may_rest(bool /*served*/) override { return true; }
  bool all_is_quiet() override { return false; }

  OwnerThread owner_;
  std::shared_ptr<HandleState> state_ = std::make_shared<HandleState>();
  bool mine_ = false;
  bool rounds_up_ = false;

 private:
  ProgressLock& turns_;
};

TEST(ProgressLock, WhoHasOneWorksAsTheCoordinatorAndCalculatesAsItsThread) {
  const auto doorbell = std::make_shared<EventCount>();
  ProgressLock turns(doorbell);
  Looker looker(turns);
  const Resting own(turns, *doorbell, looker, [&looker] {
    std::fesetround(FE_UPWARD);
    looker.owner_.check();
  });
  while (!turns.take_until_done(*looker.state_, std::chrono::milliseconds(1))) continue;
  EXPECT_TRUE(looker.mine_);
  EXPECT_TRUE(looker.rounds_up_);
  EXPECT_FALSE(turns.mine());
  EXPECT_FALSE(rounds_up());
}

// Purpose: moves for a while, and then never again.
class Mover : public TurnTaker {
 public:
  Outcome turn_of_waiter(Time now) noexcept override {
    if (begun_ == Time{}) begun_ = now;
    if (now - begun_ > std::chrono::milliseconds(8)) return Outcome::still;
    moved_ = now;
    return Outcome::moved;
  }
  bool in_vain() override { return true; }
  bool may_rest(bool /*served*/) override { return true; }
  bool all_is_quiet() override { return false; }
  // When it moved last, and how long after the first time that was.
  Time moved() const { return moved_; }
  Duration worked() const { return moved_ - begun_; }

 private:
  Time begun_{};
  Time moved_{};
};

// On a busy machine a thread may lose its core right after the first move. Then it has not been at it for
// long, and the test begins again.
TEST(ProgressLock, WhoHasBeenAtItForLongLooksForLonger) {
  const HandleState never;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto doorbell = std::make_shared<EventCount>();
    ProgressLock turns(doorbell);
    Mover mover;
    const Resting own(turns, *doorbell, mover);
    while (!turns.take_until_done(never, microseconds(50)) || mover.moved() == Time{}) continue;
    const Time ended = clock_now();
    if (mover.worked() < std::chrono::milliseconds(4)) continue;
    EXPECT_GE(ended - mover.moved(), std::chrono::milliseconds(2));
    return;
  }
  FAIL() << "no attempt was left alone for 4 ms";
}

}  // namespace
}  // namespace rueda
