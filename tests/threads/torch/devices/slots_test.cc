// SPDX-License-Identifier: Apache-2.0
// Who has a window of a device for gradients, and for how long: the ranks are threads, their devices and NCCL
// fakes, and LibTorch's operators for CUDA run on the host.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "core/default_runtime.h"
#include "core/engine/runtime.h"
#include "rueda/torch/collectives/capture.h"
#include "tests/support/training/device_training.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;
using Sgd = DistributedOptimizer<torch::optim::SGD>;

class TorchDeviceSlots : public TorchDeviceWorld {
 protected:
  // Blocks of NCCL's that there are, seen from any rank at the same time.
  static void expect_at_all(Runtime& runtime, const std::function<void()>& look) {
    barrier_async(runtime).wait();
    if (runtime.topology().rank == 0) look();
    barrier_async(runtime).wait();
  }
};

// What NCCL does not carry out, it does not work on in a window.
TEST_F(TorchDeviceSlots, ThereIsNoneWhereTheHostReduces) {
  const auto train = [this](Runtime& runtime, const FakeTorchDevice& device, DistributedOptions options) {
    DeviceTraining training(runtime, device.name(), {{4}, {16}}, std::move(options));
    for (int step = 0; step < 3; ++step) training.step();
    training.expect_means();
    expect_at_all(runtime, [this] { EXPECT_EQ(nccl_.blocks(), 0u); });
  };
  run_torch_by_the_host(2,
                        [&](Runtime& runtime, const FakeTorchDevice& device) { train(runtime, device, {}); });
  devices_.clear();
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    DistributedOptions fixed, thin;
    fixed.reduction_order = ReductionOrder::fixed;
    thin.compression = Compression::topk;
    thin.compression_share = 1.0;
    train(runtime, device, fixed);
    train(runtime, device, thin);
  });
}

TEST_F(TorchDeviceSlots, ARankAloneHasNone) {
  run_torch(1, [this](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{4}});
    for (int step = 0; step < 3; ++step) training.step();
    training.expect_means(1.0);
    EXPECT_EQ(nccl_.blocks(), 0u);
  });
}

// It says so, and nobody waits for it.
TEST_F(TorchDeviceSlots, WhereOneRankHasNoMemoryAllGoOnWithout) {
  nccl_.forget_memory();
  testing::internal::CaptureStderr();
  run_torch(2, [this](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{3}, {1000}}, {});
    if (runtime.topology().rank == 1) devices_[1]->device().take_memory_from(4000);
    for (int step = 0; step < 3; ++step) {
      training.step();
      training.expect_means();
    }
  });
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("rank 1: gradients are packed, not reduced in place, on all ranks. rank 1: there is no "
                "memory on device 1 for 4096 bytes"));
}

// Windows of optimizers that are gone are given back when the next one is shared.
TEST_F(TorchDeviceSlots, OptimizersComeAndGo) {
  run_torch(2, [this](Runtime& runtime, const FakeTorchDevice& device) {
    for (int round = 0; round < 5; ++round) {
      DeviceTraining training(runtime, device.name(), {{3}, {1000}});
      for (int step = 0; step < 3; ++step) training.step();
      training.expect_means();
      expect_at_all(runtime, [&] { EXPECT_LE(nccl_.blocks(), round == 0 ? 2u : 4u) << round; });
    }
  });
  EXPECT_EQ(nccl_.blocks(), 0u);
}

// What they have is ordinary memory then.
TEST_F(TorchDeviceSlots, GradientsOutliveTheJob) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    std::vector<at::Tensor> kept;
    {
      DeviceTraining training(runtime, device.name(), {{3}, {10}});
      for (int step = 0; step < 3; ++step) training.step();
      kept = {training.grad(0), training.grad(1)};
    }
    runtime.shutdown();
    EXPECT_EQ(kept[1].cpu()[9].item<double>(), 3.0);
    kept[1].zero_();
  });
  EXPECT_EQ(nccl_.blocks(), 0u);
}

// An optimizer that goes on in the next job, of which it asks for a window of the same names.
TEST_F(TorchDeviceSlots, TheNextJobHasAWindowOfItsOwn) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 3; ++step) training.step();
    const std::vector<const void*> before = training.gradient_addresses();
    expect_at_all(runtime, [] {
      MemoryNetwork network(1);
      init(memory_components(network, 0, 1, {}));
      shutdown();
    });
    for (int step = 0; step < 2; ++step) {
      training.step();
      training.expect_means();
    }
    const std::vector<const void*> addresses = training.gradient_addresses();
    EXPECT_NE(addresses, before);
    training.step();
    training.expect_means();
    EXPECT_EQ(training.gradient_addresses(), addresses);
  });
  EXPECT_EQ(count(0, "ncclCommWindowRegister"), 2);
}

TEST_F(TorchDeviceSlots, TheRanksOfAProcessSetShareTheirs) {
  run_torch(3, [](Runtime& runtime, const FakeTorchDevice& device) {
    const ProcessSet set = add_process_set(RankSet(1, 3), runtime);
    if (runtime.topology().rank > 0) {
      const at::Tensor leaf = at::ones({100}, device.name()).requires_grad_();
      Sgd optimizer({leaf}, torch::optim::SGDOptions(0.0), {.device_window = true}, set);
      const void* address = nullptr;
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        (leaf * static_cast<double>(runtime.topology().rank)).sum().backward();
        optimizer.step();
        EXPECT_EQ(leaf.grad().cpu()[99].item<double>(), 1.5);
        if (step == 1) address = leaf.grad().const_data_ptr();
        EXPECT_EQ(leaf.grad().const_data_ptr() == address, step > 0);
      }
    }
    barrier_async(runtime).wait();
  });
}

// Two steps are on their way at a time: each has slots of its own.
TEST_F(TorchDeviceSlots, OneStepLateHasTwoBanks) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    DistributedOptions options{.device_window = true};
    options.schedule = SyncSchedule::one_step_late();
    DeviceTraining training(runtime, device.name(), {{3}, {10}}, options);
    FakeDevice& fake = devices_[runtime.topology().rank]->device();
    std::vector<const void*> even, odd;
    std::size_t packed = 0;
    for (int step = 0; step < 8; ++step) {
      training.step();
      if (step == 0) continue;  // nothing has landed
      training.expect_means();
      if (step == 5) even = training.gradient_addresses();
      if (step == 6) odd = training.gradient_addresses();
      if (step == 4) packed = fake.batches();
      if (step == 7) {
        EXPECT_EQ(training.gradient_addresses(), even);
      }
    }
    EXPECT_NE(even, odd);
    EXPECT_EQ(fake.batches(), packed);
    training.optimizer->flush();
  });
}

TEST_F(TorchDeviceSlots, WhoHasJoinedKeepsItsGradients) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 3; ++step) training.step();
    if (runtime.topology().rank == 0) {
      for (int step = 0; step < 2; ++step) training.step();
      training.expect_means(0.5);
    }
    join(runtime);
    if (runtime.topology().rank == 1) training.expect_means();
  });
}

// A graph knows no windows: what is captured is reduced where it is, in a slot or not, and both go on.
TEST_F(TorchDeviceSlots, ACapturedStepGoesOnBesideOthers) {
  for (const bool set_to_none : {true, false}) {
    run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
      FakeDevice& fake = devices_[runtime.topology().rank]->device();
      DeviceTraining training(runtime, device.name(), {{3}, {10}});
      for (int step = 0; step < 3; ++step) training.step(set_to_none);
      const std::vector<const void*> addresses = training.gradient_addresses();
      const DeviceStream stream = device.stream(0).native_handle();
      FakeDevice::Graph graph;
      rueda::capture(
          [&] {
            fake.begin_capture(stream);
            training.step(set_to_none);
            graph = fake.end_capture(stream);
          },
          runtime);
      EXPECT_EQ(training.gradient_addresses() == addresses, !set_to_none);
      const std::vector<at::Tensor> captured{training.grad(0), training.grad(1)};
      for (int run = 0; run < 2; ++run) {
        for (std::size_t i = 0; i < 2; ++i) captured[i].detach().fill_(training.mine * 10.0);
        fake.run(graph, stream);
        for (int look = 0; look < 100000 && captured[1].cpu()[9].item<double>() != 15.0; ++look)
          fake.finish();
        EXPECT_EQ(captured[0].cpu()[2].item<double>(), 15.0);
        EXPECT_EQ(captured[1].cpu()[9].item<double>(), 15.0);
        training.step();  // `captured` is somebody's who keeps it
        training.expect_means();
        EXPECT_EQ(captured[0].cpu()[2].item<double>(), 15.0);
      }
    });
    devices_.clear();
  }
}

}  // namespace
}  // namespace rueda
