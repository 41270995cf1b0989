// SPDX-License-Identifier: Apache-2.0
// When the memory of windows goes: the ranks are threads, their devices and NCCL fakes.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/training/device_gradients.h"
#include "tests/support/worlds/nccl_world.h"

namespace rueda {
namespace {

class NcclWindowMemoryTest : public NcclWorld {};

// When the next one is shared, and on every rank; NCCL has forgotten it before.
TEST_F(NcclWindowMemoryTest, AWindowThatNobodyHoldsIsGivenBack) {
  Config config;
  config.nccl_streams = 2;
  run(
      2,
      [this](Runtime& runtime, FakeDevice&) {
        const auto expect_blocks = [&](std::size_t blocks) {
          barrier_async(runtime).wait();
          EXPECT_EQ(nccl_.blocks(), blocks);
          barrier_async(runtime).wait();
        };
        std::optional<Gradients> first(std::in_place, runtime);
        share_window_async(first->window(), 0, runtime).wait();
        first->reduce(runtime);
        std::optional<Gradients> second(std::in_place, runtime);
        std::shared_ptr<std::byte> held = runtime.topology().rank == 1 ? first->memory : nullptr;
        first.reset();
        share_window_async({second->memory, kGradientBytes, {{"c", 256, 12}}}, 0, runtime).wait();
        expect_blocks(4);  // rank 1 still has it
        first.emplace(runtime);
        held.reset();
        barrier_async(runtime).wait();
        share_window_async(first->window(), 0, runtime).wait();
        expect_blocks(6);
        const Gradients next(runtime);  // for which the memory of the first one goes
        expect_blocks(6);
        first->reduce(runtime);
        second.reset();
        first->reduce(runtime);
      },
      config);
  EXPECT_EQ(count(0, "ncclCommWindowDeregister"), 6);
  EXPECT_EQ(nccl_.blocks(), 0u);
}

// As kernels of the program's that read a block, on a stream of its own; `freed` if it was meanwhile.
void read_for_long(FakeDevice& device, FakeNccl& nccl, const void* block, std::atomic<bool>& freed) {
  for (int i = 0; i < 2000; ++i) {
    device.give(&freed, [&nccl, &freed, block] {
      if (!nccl.has(block)) freed = true;
    });
  }
}

TEST_F(NcclWindowMemoryTest, NothingIsFreedWhileTheDeviceReadsIt) {
  for (const bool at_shutdown : {true, false}) {
    std::atomic<bool> freed = false;
    run(2, [&](Runtime& runtime, FakeDevice& device) {
      std::optional<Gradients> gradients(std::in_place, runtime);
      share_window_async(gradients->window(), 0, runtime).wait();
      gradients->reduce(runtime);
      const Gradients other(runtime);
      const void* const block = gradients->memory.get();
      read_for_long(device, nccl_, block, freed);
      gradients.reset();
      if (at_shutdown) return;
      share_window_async(other.window(), 0, runtime).wait();
      barrier_async(runtime).wait();
      EXPECT_TRUE(nccl_.has(block)) << "the background thread would have waited";
      // An operation may keep its tensors until some of the next ones.
      for (int i = 0; i < 5; ++i) {
        const Gradients next(runtime);
        share_window_async(next.window(), 0, runtime).wait();
        barrier_async(runtime).wait();
      }
      const Gradients last(runtime);
      EXPECT_FALSE(nccl_.has(block));
    });
    for (const auto& each : devices_) each->device().finish();
    EXPECT_FALSE(freed) << at_shutdown;
    EXPECT_EQ(nccl_.blocks(), 0u);
    devices_.clear();
  }
}

}  // namespace
}  // namespace rueda
