// SPDX-License-Identifier: Apache-2.0
// How a Runtime starts, fails and ends, on ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "core/default_runtime.h"
#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/values.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;

Handle sum(Runtime& runtime, const std::string& name, std::vector<float>& values) {
  return allreduce_async(name, view(values), view(values), {ReduceOp::sum}, runtime);
}

TEST(Runtime, ManyThreadsMaySubmitAtOnce) {
  run_ranks(2, [](Runtime& runtime) {
    constexpr int kThreads = 4, kEach = 50;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          std::vector<float> values(100, 1.0f + static_cast<float>(runtime.topology().rank));
          sum(runtime, "t" + std::to_string(t) + "." + std::to_string(i), values).wait();
          EXPECT_EQ(values, std::vector<float>(100, 3.0f));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Runtime, ResultsDoNotDependOnFusion) {
  // The same tensors alone and fused: the same bits, since each element is summed in the order of ranks
  // around the ring.
  for (std::int64_t threshold : {std::int64_t{0}, std::int64_t{1} << 26}) {
    Config config;
    config.fusion_threshold = threshold;
    run_ranks(
        2,
        [](Runtime& runtime) {
          std::vector<std::vector<float>> tensors;
          for (int i = 0; i < 40; ++i)
            tensors.emplace_back(500 + i, 0.1f * static_cast<float>(i + runtime.topology().rank));
          std::vector<Handle> handles;
          for (int i = 0; i < 40; ++i) handles.push_back(sum(runtime, "x" + std::to_string(i), tensors[i]));
          for (const Handle& handle : handles) handle.wait();
          for (int i = 0; i < 40; ++i) {
            const float expected = 0.1f * static_cast<float>(i) + 0.1f * static_cast<float>(i + 1);
            for (float value : tensors[i]) ASSERT_EQ(value, expected);
          }
        },
        config);
  }
}

TEST(Runtime, ARankThatLeavesIsNamedToThoseWhoNeedIt) {
  std::string words[2];
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    if (rank == 2) return;  // shuts down
    std::vector<float> values(10);
    const Status status = sum(runtime, "needed", values).wait_status();
    EXPECT_EQ(status.code, StatusCode::shut_down);
    words[rank] = status.message;
  });
  EXPECT_EQ(words[0], words[1]);
  EXPECT_NE(words[0].find("rank 2 shut down without it"), std::string::npos) << words[0];
}

TEST(Runtime, AfterShutdownASubmissionSaysSo) {
  run_ranks(1, [](Runtime& runtime) {
    runtime.shutdown();
    std::vector<float> values(1);
    EXPECT_THROW(sum(runtime, "late", values).wait(), ShutDown);
    runtime.shutdown();  // harmless
  });
}

TEST(Runtime, ALostPeerEndsEverythingWithTheSameWords) {
  MemoryNetwork network(3);
  std::string words[2];
  std::atomic<int> waiting{0};
  run_ranks_on(network, 3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    std::vector<float> values(10);
    if (rank == 2) {  // plays dead: submits nothing until the others know
      while (waiting.load() < 2) std::this_thread::yield();
      network.lose(2);
      return;
    }
    Handle handle = sum(runtime, "never", values);
    ++waiting;
    const Status status = handle.wait_status();
    EXPECT_EQ(status.code, StatusCode::peer_lost);
    words[rank] = status.message;
    EXPECT_THROW(sum(runtime, "after", values).wait(), PeerLost);  // final
  });
  EXPECT_EQ(words[0], words[1]);
  EXPECT_NE(words[0].find("rank 2 (process"), std::string::npos) << words[0];
}

TEST(Runtime, WhatIsAwaitedNeedsNoRing) {
  run_ranks(3, [](Runtime& runtime) {
    const Scope all(runtime);
    for (int round = 0; round < 200; ++round) {
      std::vector<float> values(10, 1.0f);
      const Scope scope = round % 3 == 0 ? all : all.awaited();
      allreduce_async("x", view(values), view(values), {ReduceOp::sum}, scope).wait();
      EXPECT_EQ(values, std::vector<float>(10, 3.0f));
    }
  });
}

// Rank 0 waits, and takes turns, as long as the operations of others move.
TEST(Runtime, ALossIsHeardOfWhileOthersGoOn) {
  MemoryNetwork network(4);
  std::atomic<bool> waiting{false};
  run_ranks_on(network, 4, [&](Runtime& runtime) {
    const ProcessSet pair = add_process_set(RankSet(1, 3), runtime);
    const Rank rank = runtime.topology().rank;
    std::vector<float> values(10);
    if (rank == 3) {
      while (!waiting.load()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      network.lose(3);
    } else if (rank == 0) {
      waiting.store(true);
      const Time begin = clock_now();
      EXPECT_EQ(sum(runtime, "never", values).wait_status().code, StatusCode::peer_lost);
      EXPECT_LT(clock_now() - begin, std::chrono::seconds(5));
    } else {
      Status status;
      while (status.ok()) {
        status = allreduce_async("pair", view(values), view(values), {}, Scope(pair).awaited()).wait_status();
      }
      EXPECT_EQ(status.code, StatusCode::peer_lost);
    }
  });
}

// Purpose: passes on, but fails on one thread from some point on.
class FailingTransport final : public Transport {
 public:
  FailingTransport(std::unique_ptr<Transport> other, std::atomic<std::thread::id>& victim)
      : other_(std::move(other)), victim_(victim) {}

  void send(Rank to, Bytes bytes) override { other_->send(to, std::move(bytes)); }
  std::optional<Envelope> receive() override {
    if (victim_.load() == std::this_thread::get_id()) throw std::runtime_error("the cable is out");
    return other_->receive();
  }
  std::vector<Rank> lost(Time now) override { return other_->lost(now); }
  bool rings_doorbell() const override { return other_->rings_doorbell(); }

 private:
  std::unique_ptr<Transport> other_;
  std::atomic<std::thread::id>& victim_;
};

TEST(Runtime, WhatFailsOnAThreadThatWaitsEndsTheJobAsOnTheCoordinators) {
  MemoryNetwork network(2);
  std::atomic<std::thread::id> victim{};
  auto parts_of = [&](Rank rank) {
    RuntimeComponents components = memory_components(network, rank, 2, {});
    components.transport = std::make_unique<FailingTransport>(std::move(components.transport), victim);
    return components;
  };
  run_ranks_of(
      2,
      [&](Runtime& runtime) {
        std::vector<float> values(10);
        const auto next = [&] {
          return allreduce_async("x", view(values), view(values), {}, Scope(runtime).awaited()).wait_status();
        };
        for (int round = 0; round < 10; ++round) EXPECT_TRUE(next().ok());
        if (runtime.topology().rank == 1) victim.store(std::this_thread::get_id());
        Status status;
        while (status.ok()) status = next();
        EXPECT_EQ(status.code, StatusCode::backend_error);
        EXPECT_EQ(status.message, "rank 1 failed: the cable is out");
      },
      parts_of);
}

TEST(Runtime, AProcessOutlivesAFailedJob) {
  MemoryNetwork network(2);
  Config config;
  config.watchdog_time = 0.5;
  run_ranks_on(
      network, 2,
      [&](Runtime& runtime) {
        network.lose(1 - runtime.topology().rank);
        std::vector<float> values(10);
        EXPECT_THROW(sum(runtime, "never", values).wait(), PeerLost);
        std::this_thread::sleep_for(
            std::chrono::seconds(2));  // the watchdog must not take the end for being stuck
      },
      config);
}

TEST(Runtime, NamelessOperationsOfDifferentKindsMayCross) {
  run_ranks(2, [](Runtime& runtime) {
    const bool first = runtime.topology().rank == 0;
    const std::string one = runtime.next_name(first ? "a" : "b", kWorld);
    const std::string two = runtime.next_name(first ? "b" : "a", kWorld);
    EXPECT_EQ(one, first ? "a.0" : "b.0");
    EXPECT_EQ(two, first ? "b.0" : "a.0");
  });
}

TEST(Runtime, RanksThatDoNotComeAreNamed) {
  MemoryNetwork network(3);
  Config config;
  config.start_timeout = 0.2;
  std::vector<std::thread> threads;
  for (Rank rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      try {
        Runtime runtime(memory_components(network, rank, 3, config));
        ADD_FAILURE() << "started without rank 2";
      } catch (const PeerLost& error) {
        EXPECT_NE(std::string(error.what()).find("rank 2 of 3 did not come within 0.2 s"), std::string::npos)
            << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Runtime, TensorsOfADroppedHandleOutliveTheOperation) {
  run_ranks(2, [](Runtime& runtime) {
    std::weak_ptr<std::vector<float>> watch;
    {
      auto values = std::make_shared<std::vector<float>>(1 << 16, 1.0f);
      watch = values;
      Submission submission;
      submission.request = {"dropped", Operation::allreduce, DataType::float32, {1 << 16}};
      submission.input = submission.output = view(*values);
      submission.owner = values;
      runtime.submit(std::move(submission));
    }
    barrier_async(runtime).wait();
    // submit releases on this thread what has completed a moment before; ranks go on together
    std::vector<float> other(1);
    for (int i = 0; i < 100; ++i) sum(runtime, "next", other).wait();
    EXPECT_TRUE(watch.expired());
  });
}

TEST(Runtime, WaitLetsGoOfTheTensors) {
  run_ranks(2, [](Runtime& runtime) {
    auto values = std::make_shared<std::vector<float>>(10, 1.0f);
    std::weak_ptr<std::vector<float>> watched = values;
    Submission submission;
    submission.request = {"owned", Operation::allgather, DataType::float32, {10}};
    submission.input = view(*values);
    submission.owner = std::move(values);
    const Handle handle = runtime.submit(std::move(submission));
    handle.wait();
    EXPECT_TRUE(watched.expired());
    EXPECT_EQ(handle.output().elements(), 20);
  });
}

TEST(Runtime, WhatAllocatesIsDestroyedByWhoWaits) {
  run_ranks(2, [](Runtime& runtime) {
    std::thread::id destroyed_by;
    std::vector<float> values(10, 1.0f), all(20);
    std::shared_ptr<void> watched(&values, [&](void*) { destroyed_by = std::this_thread::get_id(); });
    Submission submission;
    submission.request = {"rows", Operation::allgather, DataType::float32, {10}};
    submission.input = view(values);
    submission.allocate = [&all, watched = std::move(watched)](DataType, const Shape&) { return view(all); };
    runtime.submit(std::move(submission)).wait();
    EXPECT_EQ(destroyed_by, std::this_thread::get_id());
    EXPECT_EQ(all, std::vector<float>(20, 1.0f));
  });
}

TEST(Runtime, BadSubmissionsAreRefusedWithARemedy) {
  run_ranks(1, [](Runtime& runtime) {
    std::vector<float> values(4);
    std::vector<double> doubles(4);
    auto expect = [&](auto submit, const std::string& words) {
      try {
        submit();
        ADD_FAILURE() << "accepted: " << words;
      } catch (const InvalidArgument& error) {
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      }
    };
    expect([&] { sum(runtime, "", values); }, "a name has 1 to 1024 bytes");
    expect([&] { allreduce_async("x", view(values), view(doubles), {}, runtime); }, "give both one dtype");
    expect([&] { allreduce_async("x", view(values), view(std::span(values).first(3)), {}, runtime); },
           "give both one shape");
    expect(
        [&] {
          allreduce_async("x", view(std::span(values).first(3)), view(std::span(values).subspan(1)), {},
                          runtime);
        },
        "overlap");
    expect(
        [&] {
          allreduce_async("x", view(values), view(values), {ReduceOp::sum, std::nan("")}, runtime);
        },
        "must be finite");
    expect([&] { broadcast_async("x", view(values), view(values), 3, runtime); }, "no root rank 3");
    expect([&] { alltoall_async("x", view(values), {5}, runtime); }, "splits");
    expect([&] { allgather_async("x", {values.data(), DataType::float32, {}}, runtime); }, "scalar");
    expect([&] { allgather_async("x", {nullptr, DataType::float32, {3}}, runtime); }, "no memory");
    expect(
        [&] {
          allgather_async("x", {values.data(), DataType::float32, {-3}}, runtime);
        },
        "impossible shape [-3]");
    TestTensor flags(DataType::boolean, {3});
    expect([&] { allreduce_async("x", flags.view(), flags.view(), {}, runtime); }, "bool has no average");
  });
}

TEST(Runtime, ARankThatGoesWhileOthersConnectIsNamed) {
  MemoryNetwork network(1);
  for (const bool known : {true, false}) {
    RuntimeComponents components = memory_components(network, 0, 1, {});
    components.on_peers_known = [known](const Welcome&, const RuntimeComponents::Alive&) {
      if (known) throw PeerGone{0};
      throw 7;
    };
    try {
      Runtime runtime(std::move(components));
      ADD_FAILURE() << "it started";
    } catch (const PeerLost& error) {
      EXPECT_TRUE(known);
      EXPECT_THAT(error.what(), HasSubstr("init: rank 0 (process "));
      EXPECT_THAT(error.what(), HasSubstr("ended, or left, while the job started"));
    } catch (const BackendError& error) {
      EXPECT_FALSE(known) << error.what();
    }
  }
}

TEST(FrontDoor, NeedsInitAndComesBackAfterShutdown) {
  EXPECT_FALSE(is_initialized());
  EXPECT_THROW(rank(), NotInitialized);
  for (int round = 0; round < 2; ++round) {
    MemoryNetwork network(1);
    init(memory_components(network, 0, 1, {}));
    EXPECT_TRUE(is_initialized());
    EXPECT_EQ(size(), 1);
    std::vector<float> values{1, 2};
    allreduce_async("x", view(values), view(values)).wait();
    EXPECT_EQ(values, (std::vector<float>{1, 2}));
    shutdown();
    EXPECT_FALSE(is_initialized());
  }
}

// As daemon threads of Python do at its end.
TEST(FrontDoor, CallsInTheMiddleOfAShutdownFail) {
  std::atomic<bool> over{false};
  std::atomic<int> reduced{0};
  std::vector<std::thread> callers;
  for (const char* name : {"a", "b", "c"}) {
    callers.emplace_back([&, name] {
      std::vector<float> values{1, 2};
      while (!over) {
        try {
          allreduce_async(name, view(values), view(values)).wait();
          ++reduced;
          static_cast<void>(metrics());
        } catch (const Error&) {  // there is no job, or it has ended
        }
      }
    });
  }
  for (int round = 0; round < 20; ++round) {
    MemoryNetwork network(1);
    init(memory_components(network, 0, 1, {}));
    const int before = reduced;
    while (reduced - before < 10) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    shutdown();
  }
  over = true;
  for (std::thread& caller : callers) caller.join();
}

TEST(FrontDoor, TakesProcessSetsAgainAfterBadOnes) {
  MemoryNetwork network(1);
  const auto init_with = [&](const RankLists& lists) {
    RuntimeComponents components = memory_components(network, 0, 1, {});
    components.process_sets = lists;
    init(std::move(components));
  };
  EXPECT_THROW(init_with({{1}}), InvalidArgument);
  EXPECT_FALSE(is_initialized());
  init_with({});
  EXPECT_TRUE(process_sets().empty());
  EXPECT_THROW(init_with({{0}}), InvalidArgument);  // it runs without
  init_with({});
  shutdown();
}

}  // namespace
}  // namespace rueda
