// SPDX-License-Identifier: Apache-2.0
// Tensors on devices, as the engine sees them: the device is a part of the request, results come with a
// fence, and tensors stay alive until the device has passed it. The device of these tests has the host's
// memory.
#include <gmock/gmock.h>

#include <atomic>

#include "core/engine/runtime.h"
#include "core/submission_arguments.h"
#include "ops/algorithms/link_backend.h"
#include "rueda/rueda.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;

// Purpose: a point that the test lets the device pass.
struct TestFence final : Fence {
  bool passed() const override { return open; }
  void hold_back(DeviceStream) const override {}
  std::atomic<bool> open{false};
};

// Purpose: remembers of which streams it was asked.
struct TestAccelerator final : Accelerator {
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string problem() override { return {}; }
  std::shared_ptr<const Fence> record(int device, DeviceStream stream) override {
    last_device = device;
    last_stream = stream;
    return std::make_shared<TestFence>();
  }
  int last_device = -1;
  DeviceStream last_stream = nullptr;
};

// Purpose: a Link's Works on tensors that are said to be elsewhere, with `fence` behind them.
class DeviceBackend final : public Backend {
 public:
  DeviceBackend(std::shared_ptr<Link> link, Rank rank, std::shared_ptr<const Fence> fence)
      : link_("device", std::move(link), rank, true), fence_(std::move(fence)) {}
  std::string_view name() const override { return "device"; }
  DeviceKind device() const override { return DeviceKind::cuda; }
  bool can_run(const Plan&) const override { return true; }
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override {
    for (Entry& entry : entries) {
      EXPECT_TRUE(entry.submission().ready || entry.joined);
      entry.handle->fence = fence_;
    }
    return link_.start(plan, entries);
  }
  bool rings_doorbell() const override { return true; }

 private:
  LinkBackend link_;
  std::shared_ptr<const Fence> fence_;
};

Submission sum_of(std::vector<float>& values, DeviceKind device = DeviceKind::cuda) {
  Submission submission;
  submission.request.name = "t";
  submission.request.shape = {static_cast<std::int64_t>(values.size())};
  submission.request.device = device;
  submission.output = view(values);
  submission.input = submission.output;
  return submission;
}

void run_with_devices(Rank ranks, const std::shared_ptr<TestFence>& fence,
                      const std::function<void(Runtime&)>& body) {
  MemoryNetwork network(ranks);
  run_ranks_of(ranks, body, [&](Rank rank) {
    RuntimeComponents components = memory_components(network, rank, ranks, {});
    components.accelerator = std::make_shared<TestAccelerator>();
    components.backends.push_back(std::make_unique<DeviceBackend>(network.link(rank), rank, fence));
    return components;
  });
}

TEST(Devices, AResultComesWithItsFenceAndTensorsStayUntilItIsPassed) {
  const auto fence = std::make_shared<TestFence>();
  std::atomic<int> alive{0};
  run_with_devices(2, fence, [&](Runtime& runtime) {
    std::vector<float> values(5, 1.0f);
    Submission submission = sum_of(values);
    ++alive;
    submission.owner = std::shared_ptr<void>(&values, [&](void*) { --alive; });
    const Handle handle = runtime.submit(std::move(submission));
    handle.wait();
    EXPECT_EQ(values, std::vector<float>(5, 2.0f));
    EXPECT_EQ(handle.fence(), fence);
    barrier_async(runtime).wait();
    EXPECT_EQ(alive, 2);
    barrier_async(runtime).wait();
    fence->open = true;
    barrier_async(runtime).wait();  // a submission clears what has been released
    barrier_async(runtime).wait();
    EXPECT_EQ(alive, 0);
  });
}

TEST(Devices, RanksThatDifferHearOfItInTheSameWords) {
  run_with_devices(2, std::make_shared<TestFence>(), [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    std::vector<float> values(5, 1.0f);
    const auto device = rank == 0 ? DeviceKind::host : DeviceKind::cuda;
    const Status status = runtime.submit(sum_of(values, device)).wait_status();
    EXPECT_EQ(status.code, StatusCode::mismatch);
    EXPECT_THAT(status.message, HasSubstr("device"));
    EXPECT_THAT(status.message, HasSubstr("host"));
    EXPECT_THAT(status.message, HasSubstr("cuda"));
    runtime.submit(sum_of(values)).wait();
    EXPECT_EQ(values[0], 2.0f);
  });
}

TEST(Devices, HostAndDeviceTensorsInFlightTogetherGoTheirOwnWays) {
  run_with_devices(2, std::make_shared<TestFence>(), [](Runtime& runtime) {
    std::vector<float> here(3, 1.0f), there(3, 2.0f);
    const Handle a = runtime.submit(sum_of(there));
    const Handle b = allreduce_async("h", view(here), view(here), {ReduceOp::sum}, runtime);
    a.wait();
    b.wait();
    EXPECT_EQ(there[0], 4.0f);
    EXPECT_EQ(here[0], 2.0f);
    EXPECT_TRUE(a.fence());
    EXPECT_FALSE(b.fence());
  });
}

std::string words_of_refusal(Runtime& runtime, Submission submission) {
  try {
    runtime.submit(std::move(submission));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Devices, WithoutSupportATensorThereIsRefused) {
  MemoryNetwork network(1);
  run_ranks_of(
      1,
      [](Runtime& runtime) {
        std::vector<float> values(5, 1.0f);
        EXPECT_EQ(words_of_refusal(runtime, sum_of(values)),
                  "allreduce 't': rank 0 gave a tensor on a cuda device, but there is no driver; copy it to "
                  "the host first.");
      },
      [&](Rank rank) {
        RuntimeComponents components = memory_components(network, rank, 1, {});
        components.no_accelerator = "no driver";
        return components;
      });
}

TEST(Devices, WhatHasGapsIsRefused) {
  run_with_devices(1, std::make_shared<TestFence>(), [](Runtime& runtime) {
    std::vector<float> values(10, 1.0f);
    Submission submission = sum_of(values);
    submission.request.shape = {5};
    submission.output = {values.data(), DataType::float32, {5}, {2}};
    submission.input = submission.output;
    EXPECT_THAT(words_of_refusal(runtime, std::move(submission)), HasSubstr("contiguous"));
  });
}

// Rank 0 decides which backend runs a Plan, also of a process set that it is none of.
TEST(Devices, ARankZeroWithoutDevicesRefusesThePlansOfOthers) {
  MemoryNetwork network(3);
  run_ranks_of(
      3,
      [](Runtime& runtime) {
        const ProcessSet set = add_process_set(RankSet(1, 3), runtime);
        if (!set.included()) return;
        std::vector<float> values(5, 1.0f);
        Submission submission = sum_of(values);
        set_scope(submission, Scope(set));
        const Status status = runtime.submit(std::move(submission)).wait_status();
        EXPECT_EQ(status.code, StatusCode::backend_error);
        EXPECT_THAT(status.message, HasSubstr("RUEDA_CUDA"));
      },
      [&](Rank rank) {
        RuntimeComponents components = memory_components(network, rank, 3, {});
        if (rank > 0) components.accelerator = std::make_shared<TestAccelerator>();
        return components;
      });
}

}  // namespace
}  // namespace rueda
