// SPDX-License-Identifier: Apache-2.0
// Gradients with slots in windows of devices: the ranks are threads, their devices and NCCL fakes, and
// LibTorch's operators for CUDA run on the host.
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/engine/runtime.h"
#include "tests/support/training/device_training.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {
namespace {

using Sgd = DistributedOptimizer<torch::optim::SGD>;

class TorchDeviceWindow : public TorchDeviceWorld {};

// They lie in the order in which they come, and are one call of NCCL's, in place; step 1 has packed them.
TEST_F(TorchDeviceWindow, FromTheSecondStepOnNothingIsPacked) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{3}, {10}, {16}});
    FakeDevice& fake = devices_[runtime.topology().rank]->device();
    training.step();
    training.expect_means();
    const std::size_t packed = fake.batches();
    const long waits = device.host_waits();
    std::vector<const void*> addresses;
    for (int step = 1; step < 5; ++step) {
      const long copies = device.copies();
      training.step();
      EXPECT_EQ(device.copies() - copies, 3) << "each to its slot";
      if (step == 1) addresses = training.gradient_addresses();
      EXPECT_EQ(training.gradient_addresses(), addresses);
    }
    EXPECT_EQ(device.host_waits(), waits);
    EXPECT_EQ(fake.batches(), packed) << "neither packed nor unpacked";
    EXPECT_LT(addresses[2], addresses[1]);
    EXPECT_LT(addresses[1], addresses[0]);
    training.expect_means();
  });
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(48 float32 avg)"), 1) << testing::PrintToString(calls);
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(35 float32 avg)"), 4);
}

TEST_F(TorchDeviceWindow, WhatIsInItsPlaceIsNotCopied) {
  for (const int passes : {1, 3}) {
    run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
      DistributedOptions options{.device_window = true};
      options.backward_passes_per_step = passes;
      DeviceTraining training(runtime, device.name(), {{3}, {10}}, options);
      FakeDevice& fake = devices_[runtime.topology().rank]->device();
      std::size_t packed = 0;
      long copies = 0;
      for (int step = 0; step < 5; ++step) {
        training.optimizer->zero_grad(false);
        for (int pass = 0; pass < passes; ++pass) training.loss().backward();
        training.optimizer->step();
        training.expect_means();
        if (step < 2) {  // in step 1 ordinary gradients, in step 2 moved to their slots
          packed = fake.batches();
          copies = device.copies();
        }
      }
      EXPECT_EQ(fake.batches(), packed);
      EXPECT_EQ(device.copies(), copies);
    });
  }
}

// The mean over fewer passes than usual is made by the copy.
TEST_F(TorchDeviceWindow, AFactorIsAppliedOnTheWay) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    DistributedOptions options{.device_window = true};
    options.backward_passes_per_step = 2;
    DeviceTraining training(runtime, device.name(), {{3}, {10}}, options);
    for (int step = 0; step < 4; ++step) {
      const long copies = device.copies();
      training.step();
      EXPECT_EQ(device.copies(), copies) << "it is one pass over each";
      training.expect_means();
    }
  });
}

TEST_F(TorchDeviceWindow, LeavesAGradientThatSomebodyKeeps) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 2; ++step) training.step();
    const std::vector<const void*> addresses = training.gradient_addresses();
    const bool keeps = runtime.topology().rank == 1;
    at::Tensor kept = keeps ? training.grad(0) : at::Tensor();
    at::Tensor part = keeps ? training.grad(1).detach().narrow(0, 3, 2) : at::Tensor();
    if (keeps) {
      kept.fill_(7);
      part.fill_(8);
    }
    for (int step = 0; step < 3; ++step) {
      training.step();
      training.expect_means();
      EXPECT_EQ(training.gradient_addresses() != addresses, keeps);
      if (!keeps) continue;
      EXPECT_EQ(kept.cpu().sum().item<float>(), 21.0f);
      EXPECT_EQ(part.cpu().sum().item<float>(), 16.0f);
    }
    kept.reset();
    part.reset();
    training.step();
    training.expect_means();
    EXPECT_EQ(training.gradient_addresses(), addresses);
  });
}

// What the stream of the step still reads of a slot comes before what is put there next.
TEST_F(TorchDeviceWindow, ASlotIsUsedAgainBehindItsReaders) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{3}, {10}});
    FakeDevice& fake = devices_[runtime.topology().rank]->device();
    for (int step = 0; step < 2; ++step) training.step();
    const std::vector<const void*> addresses = training.gradient_addresses();
    training.optimizer->zero_grad();
    training.loss().backward();
    std::atomic<float> seen = 0;
    const auto gate = std::make_shared<FakeDevice::Point>();
    {
      const c10::StreamGuard there(device.stream(2));
      training.optimizer->step();
      fake.wait(device.stream(2).native_handle(), gate);
      fake.give(
          device.stream(2).native_handle(),
          [&, values = FakeDevice::real(training.grad(0).const_data_ptr<float>())] { seen = values[2]; });
    }
    training.optimizer->zero_grad();
    const std::jthread opens([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate->passed = true;
    });
    (training.loss() * 8).backward();
    EXPECT_EQ(seen, 1.5f);
    training.optimizer->step();
    training.expect_means(12.0);
    EXPECT_EQ(training.gradient_addresses(), addresses);
  });
}

TEST_F(TorchDeviceWindow, FollowsAChangedType) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 2; ++step) training.step();
    for (at::Tensor& leaf : training.leaves) {
      leaf.mutable_grad().reset();
      leaf.set_data(leaf.detach().to(at::kDouble));
    }
    std::vector<const void*> addresses;
    for (int step = 0; step < 4; ++step) {
      training.step();
      training.expect_means();
      if (step == 1) addresses = training.gradient_addresses();
      if (step > 1) {
        EXPECT_EQ(training.gradient_addresses(), addresses);
      }
    }
  });
  EXPECT_EQ(count(0, "ncclCommWindowRegister"), 2);
}

TEST_F(TorchDeviceWindow, TiedSparseAndMissingGradientsHaveSlots) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const auto leaf = [&](at::IntArrayRef sizes) {
      return at::ones(sizes, at::TensorOptions(at::kDouble).device(device.name())).requires_grad_();
    };
    const at::Tensor table = leaf({5, 2}), tied = leaf({3}), rare = leaf({4}),
                     turned = leaf({2, 3}).detach().t().requires_grad_();
    Sgd optimizer({table, tied, rare, turned}, torch::optim::SGDOptions(0.0), {.device_window = true},
                  runtime);
    const at::Tensor rows = at::tensor({1, 3}).to(device.name());
    std::vector<const void*> addresses;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      at::Tensor loss = at::embedding(table, rows, -1, false, true).sum() + (tied * tied).sum() + tied.sum();
      if (step % 2 == 0 && runtime.topology().rank == 0) loss = loss + rare.sum() + (turned * 2).sum();
      loss.backward();
      optimizer.step();
      EXPECT_EQ(table.grad().cpu().sum().item<double>(), 4.0);
      EXPECT_EQ(tied.grad().cpu().sum().item<double>(), 9.0);
      if (step % 2 == 0) {
        EXPECT_EQ(rare.grad().cpu().sum().item<double>(), 2.0);
        EXPECT_EQ(turned.grad().cpu().sum().item<double>(), 6.0);
      }
      const std::vector<const void*> now{table.grad().const_data_ptr(), tied.grad().const_data_ptr()};
      if (step == 1) addresses = now;
      if (step > 1) {
        EXPECT_EQ(now, addresses);
      }
    }
  });
}

TEST_F(TorchDeviceWindow, FactorsHaveNone) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    DistributedOptions options{.device_window = true};
    options.low_rank.rank = 1;
    DeviceTraining training(runtime, device.name(), {{20, 30}, {10}}, options);
    std::vector<const void*> addresses;
    for (int step = 0; step < 4; ++step) {
      training.step();
      EXPECT_NEAR(training.grad(0).cpu().mean().item<double>(), 1.5, 1e-5);
      EXPECT_EQ(training.grad(1).cpu()[9].item<double>(), 3.0);
      if (step == 1) addresses = training.gradient_addresses();
    }
    EXPECT_EQ(training.gradient_addresses()[1], addresses[1]);
  });
  EXPECT_EQ(count(1, "ncclCommWindowRegister(64 1)"), 1) << "the other alone";
}

TEST_F(TorchDeviceWindow, WhatIsOnTheHostHasItsBlocks) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor there =
        at::ones({10}, at::TensorOptions(at::kFloat).device(device.name())).requires_grad_();
    const at::Tensor here = at::ones({20}, at::kFloat).requires_grad_();
    DistributedOptions options{.device_window = true};
    options.groups = {{here, there}};
    Sgd optimizer({here, there}, torch::optim::SGDOptions(0.0), options, runtime);
    const double mine = static_cast<double>(runtime.topology().rank) + 1.0;
    const void* address = nullptr;
    at::Tensor kept;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      (there * mine).sum().backward({}, true);
      (here * mine).sum().backward();
      optimizer.step();
      EXPECT_TRUE(at::equal(here.grad(), at::full({20}, 1.5, at::kFloat)));
      EXPECT_EQ(there.grad().cpu()[9].item<double>(), 1.5);
      if (step == 1) address = there.grad().const_data_ptr();
      if (step == 2) kept = there.grad();  // the next one of a group with a tensor of the host's is elsewhere
      EXPECT_EQ(there.grad().const_data_ptr() == address, step == 1 || step == 2) << step;
    }
  });
}

// A mixed-precision scaler divides gradients where they are.
TEST_F(TorchDeviceWindow, AScalerChangesThemInPlace) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    DeviceTraining training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 4; ++step) {
      training.optimizer->zero_grad();
      (training.loss() * 8).backward();
      training.optimizer->synchronize();
      const std::vector<const void*> addresses = training.gradient_addresses();
      const at::TensorOptions scalar = training.grad(0).options();
      at::Tensor found = at::zeros({}, scalar);
      const at::Tensor inverse = at::full({}, 0.125, scalar);
      at::_amp_foreach_non_finite_check_and_unscale_({training.grad(0), training.grad(1)}, found, inverse);
      EXPECT_EQ(found.cpu().item<float>(), 0.0f);
      EXPECT_EQ(training.gradient_addresses(), addresses);
      training.expect_means();
      training.optimizer->step();
      training.expect_means();
    }
  });
}

}  // namespace
}  // namespace rueda
