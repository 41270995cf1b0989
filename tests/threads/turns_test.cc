// SPDX-License-Identifier: Apache-2.0
// Threads that wait take the coordinator's turns: one at a time, and nothing is left undone.
#include "core/engine/turns.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cfenv>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/handle_state.h"

namespace rueda {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 100'000;
#else
constexpr int kRounds = 1'000'000;
#endif
constexpr seconds kLimit(20);  // of every sleep: one that ends by it has missed something

using State = std::shared_ptr<HandleState>;

// Purpose: completes what it is given, each after some turns. All but `queue_` belongs to whoever has the
// turn: ThreadSanitizer sees a turn that is taken by two.
class Caller : public TurnTaker {
 public:
  explicit Caller(std::shared_ptr<Bell> bell) : bell_(std::move(bell)), turns_(bell_, kLimit) {}

  Turns& turns() { return turns_; }
  void push(State state) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(state));
  }
  void end() { ending_.store(true); }

  // The own thread.
  void run() {
    turns_.begin(*this);
    while (true) {
      const std::uint32_t heard = bell_->listen();
      const bool ending = ending_.load();
      own_ = true;
      const bool moved = turn();
      if (!moved && ending) break;
      if (moved || looks_++ % 4 != 0) {
        bell_->stay_awake();
        turns_.next(!moved);
      } else {
        const auto begin = clock_now();
        turns_.rest(heard, kLimit);
        missed_ |= clock_now() - begin >= kLimit;
      }
    }
    turns_.end();
  }

  Outcome lent_turn() noexcept override {
    own_ = false;
    ++lent_;
    const bool moved = turn();
    if (refused_) return Outcome::not_for_lent;
    return moved ? Outcome::moved : Outcome::still;
  }
  bool in_vain() override { return looks_++ % 2 != 0; }
  bool may_rest(bool /*served*/) override { return work_.empty(); }

  bool missed() const { return missed_; }
  std::size_t lent() const { return lent_; }

 private:
  struct Job {
    State state;
    unsigned turns;
    bool for_own;
  };

  bool turn() {
    owner_.check();
    std::vector<State> taken;
    {
      std::lock_guard lock(mutex_);
      taken.swap(queue_);
    }
    bool moved = !taken.empty();
    for (State& state : taken)
      work_.push_back({std::move(state), static_cast<unsigned>(random_() % 4), random_() % 16 == 0});
    refused_ = false;
    std::erase_if(work_, [&](Job& job) {
      moved = true;
      if (job.turns-- > 0) return false;
      if (job.for_own && !own_) {
        job.turns = 0;
        refused_ = true;
        return false;
      }
      job.state->complete({}, nullptr);
      return true;
    });
    return moved;
  }

  const std::shared_ptr<Bell> bell_;
  Turns turns_;
  std::mutex mutex_;
  std::vector<State> queue_;
  std::atomic<bool> ending_{false};
  OwnerThread owner_;
  std::minstd_rand random_;
  std::vector<Job> work_;
  unsigned looks_ = 0;
  std::size_t lent_ = 0;
  bool own_ = true, refused_ = false, missed_ = false;
};

// As a Handle waits, but that it does not sleep at the end. False where that takes as long as a missed ring.
bool submit_and_wait(Caller& caller, Bell& bell, bool awaited, Duration look_for) {
  const auto state = std::make_shared<HandleState>();
  caller.push(state);
  if (!awaited) bell.ring();
  if (!caller.turns().take_until_done(*state, look_for) && awaited) caller.turns().ring();
  const Time limit = clock_now() + kLimit / 2;
  while (!state->done()) {
    if (clock_now() > limit) return false;
    sched_yield();
  }
  return true;
}

TEST(Turns, NothingIsLeftUndone) {
  const auto bell = std::make_shared<Bell>();
  Caller caller(bell);
  std::thread own([&] { caller.run(); });
  std::atomic<bool> ended{false};
  std::thread other_rank([&] {  // rings whenever it likes
    for (; !ended.load(); sched_yield()) bell->ring();
  });
  std::vector<std::thread> threads;
  std::atomic<int> late{0};
  for (unsigned thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      std::minstd_rand random(thread + 1);
      for (int round = 0; round < kRounds / 3 && late.load() == 0; ++round) {
        const auto look_for = microseconds(random() % 3 * 20);
        if (!submit_and_wait(caller, *bell, random() % 2 == 0, look_for)) ++late;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ended.store(true);
  other_rank.join();
  caller.end();
  bell->ring();
  own.join();
  EXPECT_EQ(late.load(), 0);
  EXPECT_FALSE(caller.missed());
  EXPECT_GT(caller.lent(), 0U);
}

TEST(Turns, NobodyGetsOneBeforeTheBeginningAndAfterTheEnd) {
  const auto bell = std::make_shared<Bell>();
  Caller caller(bell);
  const HandleState state;
  EXPECT_FALSE(caller.turns().take_until_done(state, microseconds(100)));
  std::thread own([&] { caller.run(); });
  caller.end();
  bell->ring();
  own.join();
  EXPECT_FALSE(caller.turns().take_until_done(state, microseconds(100)));
  EXPECT_EQ(caller.lent(), 0U);
}

// Purpose: tells what a lent turn finds.
class Looker : public TurnTaker {
 public:
  explicit Looker(Turns& turns) : turns_(turns) {}

  Outcome lent_turn() noexcept override {
    mine_ = turns_.mine();
    owner_.check();
    rounding_ = std::fegetround();
    state_->complete({}, nullptr);
    return Outcome::moved;
  }
  bool in_vain() override { return true; }
  bool may_rest(bool /*served*/) override { return true; }

  OwnerThread owner_;
  std::shared_ptr<HandleState> state_ = std::make_shared<HandleState>();
  bool mine_ = false;
  int rounding_ = FE_TONEAREST;

 private:
  Turns& turns_;
};

TEST(Turns, WhoHasOneWorksAsTheCoordinatorAndCalculatesAsItsThread) {
  const auto bell = std::make_shared<Bell>();
  Turns turns(bell);
  Looker looker(turns);
  std::atomic<bool> rests{false};
  std::thread own([&] {
    std::fesetround(FE_UPWARD);
    looker.owner_.check();
    turns.begin(looker);
    const std::uint32_t heard = bell->listen();
    rests.store(true);
    turns.rest(heard, kLimit);
    turns.end();
  });
  while (!rests.load()) sched_yield();
  while (!turns.take_until_done(*looker.state_, std::chrono::milliseconds(1))) continue;
  EXPECT_TRUE(looker.mine_);
  EXPECT_EQ(looker.rounding_, FE_UPWARD);
  EXPECT_FALSE(turns.mine());
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  bell->wake();
  own.join();
}

}  // namespace
}  // namespace rueda
