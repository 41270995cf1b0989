// SPDX-License-Identifier: Apache-2.0
// Tensors in windows that ranks share, by NCCL: the ranks are threads, their devices and NCCL fakes.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/training/device_gradients.h"
#include "tests/support/worlds/nccl_world.h"

namespace rueda {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class NcclWindowTest : public NcclWorld {};

TEST_F(NcclWindowTest, NeighboursAreOneRunAndNothingIsPacked) {
  run(2, [](Runtime& runtime, FakeDevice&) {
    Gradients gradients(runtime);
    gradients.reduce(runtime);
    share_window_async(gradients.window(), 0, runtime).wait();
    gradients.reduce(runtime);
    gradients.reduce(runtime);
  });
  // Packed: all with their gaps, 64 bytes each at least.
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(48 float32 sum)"), 1);
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(32 float32 sum)"), 2) << "a and b, in place";
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(3 float32 sum)"), 2) << "c, behind a gap";
}

TEST_F(NcclWindowTest, NcclIsToldOnEveryStreamAndAllIsFreedInOrder) {
  Config config;
  config.nccl_streams = 2;
  run(
      2,
      [](Runtime& runtime, FakeDevice&) {
        Gradients gradients(runtime);
        share_window_async(gradients.window(), 0, runtime).wait();
        gradients.reduce(runtime);
      },
      config);
  const std::vector<std::string> calls = nccl_.take_calls(1);
  EXPECT_EQ(std::ranges::count(calls, "ncclCommWindowRegister(4096 1)"), 2);
  EXPECT_EQ(std::ranges::count(calls, "ncclCommWindowDeregister()"), 2);
  const auto deregistered = std::ranges::find(calls, "ncclCommWindowDeregister()");
  EXPECT_LT(deregistered, std::ranges::find(calls, "ncclCommFinalize()"));
  EXPECT_EQ(nccl_.blocks(), 0u);
}

// One rank's tensor lies elsewhere now: it is copied to its slot and back. NCCL's fake throws where the
// others pass what it knows and this one does not.
TEST_F(NcclWindowTest, ATensorThatHasMovedStillGoesByItsSlot) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    Gradients gradients(runtime);
    share_window_async(gradients.window(), 0, runtime).wait();
    gradients.fill();
    DeviceOnes elsewhere(device, 16);
    const bool moved = runtime.topology().rank == 1;
    Submission submission = moved ? elsewhere.sum("b") : gradients.sum({"b", 64, 64});
    submission.request.reduce_op = ReduceOp::average;
    submission.request.prescale_factor = 6.0;
    wait_on_device(runtime.submit(std::move(submission)));
    EXPECT_EQ(moved ? elsewhere.values()[15] : gradients.values(64)[15], 6.0f);
  });
}

// What lies in a window but has another name there, on one rank only.
TEST_F(NcclWindowTest, OthersInItsMemoryAreKeptApart) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    Gradients gradients(runtime);
    share_window_async(gradients.window(), 0, runtime).wait();
    gradients.fill();
    for (const Operation operation : {Operation::allreduce, Operation::broadcast}) {
      DeviceOnes elsewhere(device, 16);
      const bool inside = runtime.topology().rank == 1;
      Submission submission = inside ? gradients.sum({"other", 64, 64}) : elsewhere.sum("other");
      submission.request.operation = operation;
      wait_on_device(runtime.submit(std::move(submission)));
      const float expected = operation == Operation::allreduce ? 2.0f : 1.0f;
      EXPECT_EQ(inside ? gradients.values(64)[15] : elsewhere.values()[15], expected);
    }
  });
}

// It brings zeros, and holds what was there.
TEST_F(NcclWindowTest, AJoinedRanksSlotsAreLeftAlone) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    Gradients gradients(runtime);
    share_window_async(gradients.window(), 0, runtime).wait();
    gradients.fill();
    if (runtime.topology().rank == 0) {
      wait_on_device(runtime.submit(gradients.sum({"b", 64, 64})));
      EXPECT_EQ(gradients.values(64)[15], 1.0f);
    } else {
      gradients.values(64)[15] = 7.0f;
    }
    join(runtime);
    device.finish();
    EXPECT_EQ(gradients.values(64)[15], runtime.topology().rank == 0 ? 1.0f : 7.0f);
  });
  EXPECT_EQ(count(1, "ncclAllReduce(16 float32 sum)"), 1);
}

// One rank says that its tensor lies elsewhere, and holds what is in the slot; all of the group go so.
TEST_F(NcclWindowTest, WhatMustNotGoByItsSlotDoesNot) {
  run(2, [](Runtime& runtime, FakeDevice& device) {
    Gradients gradients(runtime);
    const Handle shared = share_window_async(gradients.window(), 0, runtime);
    shared.wait();
    EXPECT_TRUE(shared.takes_window());
    for (const bool elsewhere : {false, true, false}) {
      gradients.fill();
      gradients.values(64)[15] = 7.0f;
      DeviceOnes other(device, 16);
      const bool mine = runtime.topology().rank == 1;
      std::vector<Submission> group;
      group.push_back(mine ? other.sum("b") : gradients.sum({"b", 64, 64}));
      group.back().request.elsewhere = mine && elsewhere;
      group.push_back(gradients.sum({"a", 0, 40}));
      for (const Handle& handle : runtime.submit_group(std::move(group))) {
        wait_on_device(handle);
        EXPECT_TRUE(handle.takes_window());
      }
      EXPECT_EQ(mine ? other.values()[0] : gradients.values(64)[0], 2.0f);
      EXPECT_EQ(gradients.values(0)[9], 2.0f);
      if (mine) {
        EXPECT_EQ(gradients.values(64)[15] == 7.0f, elsewhere);
      }
    }
  });
  EXPECT_EQ(count(0, "ncclAllReduce(32 float32 sum)"), 3) << "packed or not, with a's gap";
}

// One rank has no memory: no rank works in a window, and the next one is shared.
TEST_F(NcclWindowTest, WhereOneRankBringsNoMemoryNobodyShares) {
  run(2, [](Runtime& runtime, FakeDevice&) {
    Gradients gradients(runtime);
    DeviceWindow window = gradients.window();
    if (runtime.topology().rank == 1) window.memory = nullptr;
    const Handle without = share_window_async(std::move(window), 0, runtime);
    without.wait();
    EXPECT_FALSE(without.takes_window());
    gradients.reduce(runtime);
    share_window_async(gradients.window(), 0, runtime).wait();
    gradients.reduce(runtime);
  });
  EXPECT_EQ(count(0, "ncclCommWindowRegister"), 1);
}

TEST_F(NcclWindowTest, WindowsThatDifferAreAnErrorOnEveryRankAndTheNextIsNot) {
  run(3, [](Runtime& runtime, FakeDevice&) {
    Gradients gradients(runtime);
    DeviceWindow window = gradients.window();
    if (runtime.topology().rank == 2) window.slots[1].offset = 128;
    const Status status = share_window_async(window, 0, runtime).wait_status();
    EXPECT_EQ(status.code, StatusCode::backend_error);
    EXPECT_THAT(status.message, HasSubstr("'b' at 64 (64 bytes), that of rank 2 'b' at 128"));
    const Status outside =
        share_window_async({gradients.memory, kGradientBytes, {{"a", 4032, 128}}}, 0, runtime).wait_status();
    EXPECT_THAT(outside.message, HasSubstr("has 'a' at 4032, 128 bytes"));
    gradients.reduce(runtime);
    share_window_async(gradients.window(), 0, runtime).wait();
    gradients.reduce(runtime);
  });
  EXPECT_EQ(count(0, "ncclCommWindowRegister"), 1);
}

TEST_F(NcclWindowTest, AnOlderNcclWorksInPlaceAllTheSame) {
  nccl_.forget_windows();
  run(2, [](Runtime& runtime, FakeDevice&) {
    Gradients gradients(runtime);
    share_window_async(gradients.window(), 0, runtime).wait();
    gradients.reduce(runtime);
  });
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_THAT(calls, Contains("ncclAllReduce(32 float32 sum)"));
  EXPECT_THAT(calls, Not(Contains(HasSubstr("Window"))));
}

TEST_F(NcclWindowTest, WhatGoesByTheHostSharesNothingAndWorks) {
  run(
      2,
      [](Runtime& runtime, FakeDevice&) {
        Gradients gradients(runtime);
        const Handle shared = share_window_async(gradients.window(), 0, runtime);
        shared.wait();
        EXPECT_FALSE(shared.takes_window());
        gradients.reduce(runtime);
      },
      {}, [](Rank) { return "shared"; });
  EXPECT_EQ(nccl_.blocks(), 0u);
}

// The communicator takes its registrations with it; memory is freed all the same.
TEST_F(NcclWindowTest, AFailureAbortsAndFrees) {
  try {
    run(2, [&](Runtime& runtime, FakeDevice&) {
      Gradients gradients(runtime);
      share_window_async(gradients.window(), 0, runtime).wait();
      if (runtime.topology().rank == 1) nccl_.fail("ncclAllReduce", 1);
      gradients.fill();
      Status status = runtime.submit(gradients.sum({"b", 64, 64})).wait_status();
      for (int i = 0; status.ok() && i < 1000; ++i) status = barrier_async(runtime).wait_status();
      EXPECT_THAT(status.message, HasSubstr("rank 1 failed"));
    });
  } catch (const Error&) {}
  const std::vector<std::string> calls = nccl_.take_calls(1);
  EXPECT_THAT(calls, Contains("ncclCommAbort()"));
  EXPECT_THAT(calls, Not(Contains("ncclCommWindowDeregister()")));
  EXPECT_EQ(nccl_.blocks(), 0u);
}

// What it has told NCCL of, the others' NCCL waits for.
TEST_F(NcclWindowTest, WhereNcclFailsToKnowAWindowTheJobEnds) {
  nccl_.fail("ncclCommWindowRegister", 1);
  try {
    run(2, [&](Runtime& runtime, FakeDevice&) {
      Gradients gradients(runtime);
      Status status = share_window_async(gradients.window(), 0, runtime).wait_status();
      for (int i = 0; status.ok() && i < 1000; ++i) status = barrier_async(runtime).wait_status();
      EXPECT_THAT(status.message, HasSubstr("rank 1 failed: this ends the job, since NCCL on other ranks "
                                            "waits for this one: ncclCommWindowRegister failed"));
    });
  } catch (const Error&) {}
  EXPECT_EQ(nccl_.blocks(), 0u);
}

// The second of a name goes on another stream, and its tensor is there long before rank 1's first one is.
TEST_F(NcclWindowTest, StreamsTakeTurnsInASlot) {
  Config config;
  config.nccl_streams = 2;
  run(
      2,
      [](Runtime& runtime, FakeDevice& device) {
        const Gradients gradients(runtime);
        share_window_async(gradients.window(), 0, runtime).wait();
        DeviceOnes first(device, 16), second(device, 16);
        std::fill_n(second.values(), 16, 5.0f);
        const auto late = std::make_shared<FakeDevice::Point>();
        if (runtime.topology().rank == 1) device.wait(&first, late);
        const Handle one = runtime.submit(first.sum("b"));
        one.wait();
        const Handle other = runtime.submit(second.sum("b"));
        other.wait();
        for (int i = 0; i < 3; ++i) {  // what the devices can do
          device.finish();
          barrier_async(runtime).wait();
        }
        late->passed = true;
        wait_on_device(one);
        wait_on_device(other);
        EXPECT_EQ(first.values()[3], 2.0f);
        EXPECT_EQ(second.values()[3], 10.0f);
      },
      config);
}

// Of what lies in a window on one rank only; what does not fit the buffer names what is missing.
TEST_F(NcclWindowTest, KeepingApartTakesNoMemoryWhereThereIsABuffer) {
  for (const bool fits : {true, false}) {
    Config config;
    if (!fits) config.fusion_threshold = 0;
    try {
      run(
          2,
          [&](Runtime& runtime, FakeDevice& device) {
            Gradients gradients(runtime);
            share_window_async(gradients.window(), 0, runtime).wait();
            gradients.fill();
            DeviceOnes elsewhere(device, 16);
            const bool inside = runtime.topology().rank == 1;
            if (inside) device.take_memory_from(16);
            const Handle sum =
                runtime.submit(inside ? gradients.sum({"other", 64, 64}) : elsewhere.sum("other"));
            if (fits) {
              wait_on_device(sum);
              EXPECT_EQ(inside ? gradients.values(64)[15] : elsewhere.values()[15], 2.0f);
              return;
            }
            Status status = sum.wait_status();
            for (int i = 0; status.ok() && i < 1000; ++i) status = barrier_async(runtime).wait_status();
            EXPECT_THAT(status.message, HasSubstr("64 bytes on device 0, and the devices of other ranks may "
                                                  "have begun; leave more memory free there"));
          },
          config);
    } catch (const Error&) {}
    devices_.clear();
  }
}

}  // namespace
}  // namespace rueda
