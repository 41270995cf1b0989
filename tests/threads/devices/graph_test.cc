// SPDX-License-Identifier: Apache-2.0
// Operations captured into graphs: the ranks are threads, their devices and NCCL fakes, which run a graph as
// often as they are told to.
#include <gmock/gmock.h>

#include <barrier>
#include <optional>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/training/graph_of.h"
#include "tests/support/worlds/nccl_world.h"

namespace rueda {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

class GraphTest : public NcclWorld {};

TEST_F(GraphTest, RunsAnyNumberOfTimesWithoutTheHost) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10), others(device, 5);
    wait_on_device(runtime.submit(others.sum("before")));
    const FakeDevice::Graph graph =
        graph_of(runtime, device, &ones, [&] { join(runtime.submit(ones.sum("t")), &ones); });
    EXPECT_THAT(values_of(ones), Each(1.0f)) << "a capture computes nothing";
    for (const float sum : {2.0f, 4.0f, 8.0f}) {
      run_graph(device, graph, &ones);
      EXPECT_THAT(values_of(ones), Each(sum));
    }
    wait_on_device(runtime.submit(others.sum("after")));
    EXPECT_THAT(values_of(others), Each(4.0f));
  });
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(10 float32 sum)"), 1);
  EXPECT_EQ(std::ranges::count(calls, "ncclCommInitRankConfig(0 of 2)"), 2) << "one for the graph";
  EXPECT_EQ(std::ranges::count(calls, "ncclCommDestroy()"), 2);
}

TEST_F(GraphTest, HoldsWhatIsPackedAndScaledAndSeveralOperations) {
  run(3, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes a(device, 10), b(device, 100), c(device, 3);
    const FakeDevice::Graph graph = graph_of(runtime, device, &a, [&] {
      std::vector<Submission> group;
      for (DeviceOnes* each : {&a, &b}) {
        group.push_back(each->sum(each == &a ? "a" : "b"));
        group.back().stream = &a;
        group.back().request.prescale_factor = 0.5;
      }
      for (const Handle& handle : runtime.submit_group(std::move(group))) join(handle, &a);
      Submission submission = c.sum("c");
      submission.stream = &a;
      submission.request.operation = Operation::broadcast;
      submission.request.root = 2;
      join(runtime.submit(std::move(submission)), &a);
    });
    for (int time = 1; time <= 2; ++time) {
      std::fill_n(c.values(), 3, 10.0f * static_cast<float>(runtime.topology().rank));
      run_graph(device, graph, &a);
      const float wanted = time == 1 ? 1.5f : 2.25f;
      EXPECT_THAT(values_of(a), Each(wanted));
      EXPECT_THAT(values_of(b), Each(wanted));
      EXPECT_THAT(values_of(c), Each(20.0f));
    }
  });
  const std::vector<std::string> calls = nccl_.take_calls(1);
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(128 float32 scaled sum)"), 1) << "one Plan, packed";
}

TEST_F(GraphTest, HoldsOperationsThatMakeTheirOutput) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 4);
    std::shared_ptr<std::byte> made;
    const FakeDevice::Graph graph = graph_of(runtime, device, &ones, [&] {
      Submission submission = ones.sum("g");
      submission.request.operation = Operation::allgather;
      submission.output = {};
      submission.allocate = [&](DataType dtype, const Shape& shape) {
        TensorView output{nullptr, dtype, shape, {}};
        made = device.memory(output.bytes());
        output.data = made.get();
        return output;
      };
      join(runtime.submit(std::move(submission)), &ones);
    });
    for (int time = 0; time < 2; ++time) {
      const auto base = static_cast<float>(10 * time);
      std::fill_n(ones.values(), 4, base + static_cast<float>(runtime.topology().rank));
      run_graph(device, graph, &ones);
      const float* gathered = reinterpret_cast<const float*>(FakeDevice::real(made.get()));
      EXPECT_EQ(gathered[3], base);
      EXPECT_EQ(gathered[4], base + 1.0f);
    }
  });
}

TEST_F(GraphTest, TwoGraphsTakeTurnsWithEachOtherAndWithTheRest) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes a(device, 10), b(device, 20), c(device, 30);
    const FakeDevice::Graph first =
        graph_of(runtime, device, &a, [&] { join(runtime.submit(a.sum("t")), &a); });
    const FakeDevice::Graph second =
        graph_of(runtime, device, &b, [&] { join(runtime.submit(b.sum("t")), &b); });
    for (const float sum : {2.0f, 4.0f}) {
      run_graph(device, second, &b);
      wait_on_device(runtime.submit(c.sum("t")));
      run_graph(device, first, &a);
      EXPECT_THAT(values_of(a), Each(sum));
      EXPECT_THAT(values_of(b), Each(sum));
      EXPECT_THAT(values_of(c), Each(sum));
    }
  });
}

TEST_F(GraphTest, ARankAloneHasGraphsToo) {
  run(1, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    const FakeDevice::Graph graph = graph_of(runtime, device, &ones, [&] {
      Submission submission = ones.sum("t");
      submission.request.postscale_factor = 3.0;
      join(runtime.submit(std::move(submission)), &ones);
    });
    EXPECT_THAT(values_of(ones), Each(1.0f));
    for (const float wanted : {3.0f, 9.0f}) {
      run_graph(device, graph, &ones);
      EXPECT_THAT(values_of(ones), Each(wanted));
    }
  });
}

TEST_F(GraphTest, OutsideOfCaptureItIsRefused) {
  run(1, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    device.begin_capture(&ones);
    EXPECT_THAT(words_of([&] { runtime.submit(ones.sum("t")); }),
                AllOf(HasSubstr("allreduce 't'"), HasSubstr("inside of rueda::capture()")));
    device.end_capture(&ones);
  });
}

TEST_F(GraphTest, OneInAnotherIsRefused) {
  run(1, [](Runtime& runtime, FakeDevice&) {
    EXPECT_THAT(words_of([&] { capture([&] { capture([] {}, 0, runtime); }, 0, runtime); }),
                HasSubstr("is capturing graph 1"));
    capture([] {}, 0, runtime);
  });
}

// One rank captures an operation that the other carries out at once.
TEST_F(GraphTest, RanksThatDifferInItAreTold) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    const bool captures = runtime.topology().rank == 0;
    const std::string words = words_of([&] {
      capture(
          [&] {
            if (captures) device.begin_capture(&ones);
            const Handle handle = runtime.submit(ones.sum("t"));
            const Status status = handle.wait_status();
            if (captures) device.end_capture(&ones);
            throw_if_error(status);
          },
          0, runtime);
    });
    EXPECT_THAT(words, AllOf(HasSubstr("allreduce 't'"), HasSubstr("graph that it is captured into"),
                             HasSubstr("rank 0"), HasSubstr("none (it was not captured)")));
    const FakeDevice::Graph graph =
        graph_of(runtime, device, &ones, [&] { join(runtime.submit(ones.sum("t")), &ones); });
    run_graph(device, graph, &ones);
    EXPECT_THAT(values_of(ones), Each(2.0f));
  });
}

TEST_F(GraphTest, WhatFailsOnOneRankIsToldToAll) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    const std::string words = words_of([&] {
      capture(
          [&] {
            if (runtime.topology().rank == 1) throw std::runtime_error("no room for activations");
          },
          0, runtime);
    });
    if (runtime.topology().rank == 1) {
      EXPECT_EQ(words, "no room for activations");
    } else {
      EXPECT_EQ(words,
                "capture: rank 1: no room for activations\n"
                "No rank may run its graph; capture it again on all of them.");
    }
    DeviceOnes ones(device, 10);
    wait_on_device(runtime.submit(ones.sum("t")));
    EXPECT_THAT(values_of(ones), Each(2.0f));
  });
}

TEST_F(GraphTest, WhatNobodyWaitsForIsNamedOnAllRanks) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    const std::string words = words_of([&] {
      static_cast<void>(graph_of(runtime, device, &ones, [&] {
        const Handle handle = runtime.submit(ones.sum("t"));
        if (runtime.topology().rank == 0) return join(handle, &ones);
        while (!handle.done()) std::this_thread::yield();
        handle.fence()->hold_back(&ones);
      }));
    });
    EXPECT_THAT(words, HasSubstr("capture: rank 1 has not waited for allreduce 't' in what it captured"));
  });
}

TEST_F(GraphTest, RanksOfOneDeviceCannotAndSayWhy) {
  run(
      2,
      [](Runtime& runtime, FakeDevice& device) {
        for (int time = 0; time < 2; ++time) {
          EXPECT_THAT(words_of([&] { capture([] {}, 0, runtime); }), HasSubstr("a graph cannot hold"));
        }
        DeviceOnes ones(device, 10);
        wait_on_device(runtime.submit(ones.sum("t")));
        EXPECT_THAT(values_of(ones), Each(2.0f));
      },
      {}, [](Rank) { return std::string("the same"); });
}

TEST_F(GraphTest, WhatNcclDoesNotKnowIsRefusedOnAllRanks) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    const std::string words = words_of([&] {
      static_cast<void>(graph_of(runtime, device, &ones, [&] {
        Submission submission = ones.sum("t");
        submission.request.reduce_op = ReduceOp::adasum;
        const Status status = runtime.submit(std::move(submission)).wait_status();
        device.end_capture(&ones);
        throw_if_error(status);
      }));
    });
    EXPECT_THAT(words, AllOf(HasSubstr("allreduce 't'"), HasSubstr("a graph cannot hold it")));
  });
}

TEST_F(GraphTest, ARankWithoutMemoryForItsBufferIsNamed) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    wait_on_device(runtime.submit(ones.sum("t")));
    if (runtime.topology().rank == 1) device.take_memory_from(1 << 20);
    EXPECT_THAT(words_of([&] { capture([] {}, 0, runtime); }),
                HasSubstr("since rank 1 cannot: there is no memory for a graph's buffer"));
    device.take_memory_from(SIZE_MAX);
    capture([] {}, 0, runtime);
    wait_on_device(runtime.submit(ones.sum("t")));
    EXPECT_THAT(values_of(ones), Each(4.0f));
  });
}

TEST_F(GraphTest, ARankThatHasJoinedIsNamed) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    wait_on_device(runtime.submit(ones.sum("t")));
    if (runtime.topology().rank == 0)
      EXPECT_THAT(words_of([&] { capture([] {}, 0, runtime); }), HasSubstr("joined"));
    rueda::join(runtime);
  });
}

// Rank 1's program ends the capture before its operation has come into it.
TEST_F(GraphTest, ACaptureThatIsSpoiltFailsTheOperationNotTheJob) {
  std::barrier spoilt(2);
  run(2, [&](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    const bool spoils = runtime.topology().rank == 1;
    const std::string words = words_of([&] {
      capture(
          [&] {
            device.begin_capture(&ones);
            std::optional<Handle> handle;
            if (spoils) handle = runtime.submit(ones.sum("t"));
            if (spoils) device.drop_capture();
            spoilt.arrive_and_wait();
            if (!spoils) handle = runtime.submit(ones.sum("t"));
            const Status status = handle->wait_status();
            device.drop_capture();
            throw_if_error(status);
          },
          0, runtime);
    });
    EXPECT_THAT(words, HasSubstr(spoils ? "it cannot be captured: FakeDevice" : "rank 1"));
    const FakeDevice::Graph graph =
        graph_of(runtime, device, &ones, [&] { join(runtime.submit(ones.sum("t")), &ones); });
    run_graph(device, graph, &ones);
    EXPECT_THAT(values_of(ones), Each(2.0f));
  });
}

// A rank that had joined has heard of fewer graphs.
TEST_F(GraphTest, AfterARankHadJoinedAllCaptureAgain) {
  for (const bool before_its_first_tensor : {true, false}) {
    run(2, [&](Runtime& runtime, FakeDevice& device) {
      DeviceOnes ones(device, 10), others(device, 5);
      if (!before_its_first_tensor) wait_on_device(runtime.submit(others.sum("first")));
      if (runtime.topology().rank == 0) {
        EXPECT_THAT(words_of([&] { capture([] {}, 0, runtime); }), HasSubstr("rank 1"));
        wait_on_device(runtime.submit(others.sum("alone")));
      }
      rueda::join(runtime);
      wait_on_device(runtime.submit(others.sum("together")));
      const FakeDevice::Graph graph =
          graph_of(runtime, device, &ones, [&] { join(runtime.submit(ones.sum("t")), &ones); });
      run_graph(device, graph, &ones);
      EXPECT_THAT(values_of(ones), Each(2.0f));
    });
    devices_.clear();
  }
}

// NCCL ends no communicator that a graph holds.
TEST_F(GraphTest, TheJobEndsWhileAGraphIsStillThere) {
  FakeDevice::Graph kept[2];
  run(2, [&](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    kept[runtime.topology().rank] =
        graph_of(runtime, device, &ones, [&] { join(runtime.submit(ones.sum("t")), &ones); });
  });
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_EQ(std::ranges::count(calls, "ncclCommDestroy()"), 1) << "that of the ordinary lane";
  EXPECT_EQ(std::ranges::count(calls, "ncclCommAbort()"), 0);
}

TEST_F(GraphTest, ALostRankIsNamedThoughAGraphIsStillThere) {
  FakeDevice::Graph kept[2];
  std::barrier both_have_it(2);
  run(2, [&](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    const Rank rank = runtime.topology().rank;
    kept[rank] = graph_of(runtime, device, &ones, [&] { join(runtime.submit(ones.sum("t")), &ones); });
    both_have_it.arrive_and_wait();
    if (rank == 0) network_->lose(1);
    EXPECT_EQ(barrier_async(runtime).wait_status().code, StatusCode::peer_lost);
  });
}

// Devices in the middle of a graph are set free when a rank is gone.
TEST_F(GraphTest, ALostRankEndsTheGraphsOfOthers) {
  std::barrier both_have_it(2);  // not a collective: a rank could hear of the loss before its end
  run(2, [&](Runtime& runtime, FakeDevice& device) {
    DeviceOnes ones(device, 10);
    const FakeDevice::Graph graph =
        graph_of(runtime, device, &ones, [&] { join(runtime.submit(ones.sum("t")), &ones); });
    both_have_it.arrive_and_wait();
    if (runtime.topology().rank == 1) {
      barrier_async(runtime).wait_status();
      return;
    }
    device.run(graph, &ones);  // rank 1 does not
    const std::shared_ptr<const Fence> end = device.record(&ones);
    for (int look = 0; look < 100; ++look) EXPECT_FALSE(end->passed());
    network_->lose(1);
    EXPECT_EQ(barrier_async(runtime).wait_status().code, StatusCode::peer_lost);
    while (!end->passed()) std::this_thread::yield();
    EXPECT_THAT(runtime.failure().message, HasSubstr("rank 1"));
  });
  EXPECT_THAT(nccl_.take_calls(0), Contains("ncclCommAbort()"));
}

}  // namespace
}  // namespace rueda
