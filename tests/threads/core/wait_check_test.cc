// SPDX-License-Identifier: Apache-2.0
// A thread looks after something while it waits, and what that throws ends the wait alone.
#include "core/base/wait_check.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/byte_exchange.h"
#include "core/engine/runtime.h"
#include "rueda/process_set.h"
#include "rueda/rueda.h"
#include "tests/support/sanitized.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

struct Stop {};

thread_local const std::function<void()>* look_here = nullptr;

constexpr WaitCheck kCheck{[]() noexcept { return look_here != nullptr; }, [] { (*look_here)(); }};

// Purpose: while it lives, its thread calls `look` in its waits.
class Looking {
 public:
  explicit Looking(std::function<void()> look) : look_(std::move(look)) {
    set_wait_check(kCheck);
    look_here = &look_;
  }
  ~Looking() { look_here = nullptr; }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;

 private:
  const std::function<void()> look_;
};

// Purpose: something that rank 0 has done, and others wait for without an operation.
class Done {
 public:
  void say() { done_.set_value(); }
  void wait() { seen_.wait(); }

 private:
  std::promise<void> done_;
  const std::shared_future<void> seen_ = done_.get_future().share();
};

void throw_stop() { throw Stop(); }

// Two ranks that share nothing, then two that share memory.
template <class Body>
void in_both_worlds(const Body& body_of_a_world) {
  run_ranks(2, body_of_a_world());
  run_on_one_host(2, body_of_a_world());
}

TEST(WaitCheck, LooksUntilTheOthersCome) {
  Done looked;
  run_ranks(2, [&](Runtime& runtime) {
    std::vector<float> values(100, 1.0F);
    if (runtime.topology().rank == 0) {
      int looks = 0;
      const Looking looking([&] {
        if (++looks == 3) looked.say();
      });
      allreduce_async("x", view(values), view(values), {ReduceOp::sum}, runtime).wait();
      EXPECT_GE(looks, 3);
    } else {
      looked.wait();
      allreduce_async("x", view(values), view(values), {ReduceOp::sum}, runtime).wait();
    }
    EXPECT_EQ(values, std::vector<float>(100, 2.0F));
  });
}

// The operation goes on: the others get what was given, and the caller's memory is its own again.
TEST(WaitCheck, AWaitThatIsGivenUpLeavesTheMemoryOfTheCaller) {
  const std::vector<float> ones(5000, 1.0F), sevens(5000, -7.0F), twos(5000, 2.0F);
  constexpr std::size_t kTimes = 5;
  in_both_worlds([&] {
    const auto given_up = std::make_shared<std::vector<Done>>(2 * kTimes);
    return [&, given_up](Runtime& runtime) {
      for (std::size_t i = 0; i < given_up->size(); ++i) {
        const std::string name = "x." + std::to_string(i);
        std::vector<float> input = ones, other(ones.size());
        std::vector<float>& output = i < kTimes ? input : other;
        const auto submit = [&] {
          return allreduce_async(name, view(input), view(output), {ReduceOp::sum}, runtime);
        };
        if (runtime.topology().rank == 0) {
          const Handle handle = submit();
          {
            const Looking looking(throw_stop);
            EXPECT_THROW(handle.wait(), Stop);
          }
          input = output = sevens;
          given_up->at(i).say();
          handle.wait();
          EXPECT_EQ(input, sevens);
        } else {
          given_up->at(i).wait();
          submit().wait();
        }
        barrier_async(runtime).wait();
        EXPECT_EQ(output, runtime.topology().rank == 0 ? sevens : twos);
      }
    };
  });
}

// The other rank comes while this one gives up: the memory is at work, or not any more, or not yet.
TEST(WaitCheck, AWaitIsGivenUpWhileTheOperationIsCarriedOut) {
  constexpr std::size_t kCount = sanitized(20'000, 200'000);
  const std::vector<double> ones(kCount, 1.0), sevens(kCount, -7.0), twos(kCount, 2.0);
  constexpr int kTimes = 20;
  in_both_worlds([&] {
    const auto come = std::make_shared<std::atomic<int>>(-1);
    return [&, come](Runtime& runtime) {
      const bool gives_up = runtime.topology().rank == 0;
      for (int i = 0; i < kTimes; ++i) {
        std::vector<double> values = ones;
        const auto act = [&] {
          allreduce_async("x." + std::to_string(i), view(values), view(values), {ReduceOp::sum}, runtime)
              .wait();
        };
        if (gives_up) {
          const Looking looking([&] {
            come->store(i);
            std::this_thread::sleep_for(std::chrono::microseconds(i * 50));
            throw Stop();
          });
          EXPECT_THROW(act(), Stop);
          values = sevens;
        } else {
          while (come->load() < i) std::this_thread::yield();
          act();
        }
        barrier_async(runtime).wait();
        EXPECT_EQ(values, gives_up ? sevens : twos);
      }
    };
  });
}

TEST(WaitCheck, OperationsOfSeveralStepsAreGivenUp) {
  Done given_up;
  run_ranks(2, [&](Runtime& runtime) {
    if (runtime.topology().rank == 0) {
      const Looking looking(throw_stop);
      EXPECT_THROW(allgather_bytes(std::string(3000, 'a'), "gathered", runtime), Stop);
      EXPECT_THROW(barrier_async(runtime).wait(), Stop);
      EXPECT_THROW(add_process_set(RankSet::of(0), runtime), Stop);
      given_up.say();
    } else {
      given_up.wait();
      EXPECT_EQ(allgather_bytes("b", "gathered", runtime),
                (std::vector<std::string>{std::string(3000, 'a'), "b"}));
      barrier_async(runtime).wait();
      EXPECT_EQ(add_process_set(RankSet::of(0), runtime).id(), 1);
    }
  });
}

TEST(WaitCheck, ShutdownThatIsGivenUpMayBeCalledAgain) {
  Done given_up;
  run_ranks(3, [&](Runtime& runtime) {
    if (runtime.topology().rank == 0) {
      {
        const Looking looking(throw_stop);
        EXPECT_THROW(runtime.shutdown(), Stop);
        EXPECT_THROW(runtime.shutdown(), Stop);
      }
      given_up.say();
    } else {
      given_up.wait();
    }
    runtime.shutdown();
  });
}

TEST(WaitCheck, AStartThatIsGivenUpEnds) {
  for (const Rank rank : {0, 1}) {
    MemoryNetwork network(2);
    const Looking looking(throw_stop);
    EXPECT_THROW(Runtime(memory_components(network, rank, 2, Config{})), Stop);
  }
}

TEST(WaitCheck, AFutureIsWaitedForUntilADeadline) {
  std::promise<void> promise;
  const std::future<void> future = promise.get_future();
  EXPECT_FALSE(wait_for_future(future, clock_now()));
  int looks = 0;
  {
    const Looking looking([&] { ++looks; });
    EXPECT_FALSE(wait_for_future(future, clock_now() + 4 * kCheckEvery));
    EXPECT_GE(looks, 1);
  }
  {
    const Looking looking(throw_stop);
    EXPECT_THROW(wait_for_future(future), Stop);
  }
  promise.set_value();
  EXPECT_TRUE(wait_for_future(future));
}

}  // namespace
}  // namespace rueda
