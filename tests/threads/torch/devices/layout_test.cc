// SPDX-License-Identifier: Apache-2.0
// Which gradients of a DistributedOptimizer on devices get slots, and when.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/reducer/gradient_reducer.h"
#include "tests/support/training/device_training.h"
#include "tests/support/training/sparse_rows.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {
namespace {

using Sgd = DistributedOptimizer<torch::optim::SGD>;

class TorchDeviceLayout : public TorchDeviceWorld {
 protected:
  static at::Tensor leaf(std::int64_t elements, const FakeTorchDevice& device) {
    return at::ones({elements}, device.name()).requires_grad_();
  }
  std::vector<std::string> registrations() {
    std::vector<std::string> found;
    for (const std::string& call : nccl_.take_calls(0))
      if (call.find("ncclCommWindowRegister") != std::string::npos) found.push_back(call);
    return found;
  }
};

TEST_F(TorchDeviceLayout, UnlessItIsAskedForNothingHasASlot) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor weights = leaf(10, device);
    Sgd optimizer({weights}, torch::optim::SGDOptions(0.0), {}, runtime);
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      weights.sum().backward();
      optimizer.step();
    }
  });
  EXPECT_TRUE(registrations().empty());
}

// Nor does what comes sparse.
TEST_F(TorchDeviceLayout, WhatNeverComesTakesNoMemory) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    const at::TensorOptions doubles = at::TensorOptions(at::kDouble).device(device.name());
    const at::Tensor weights = leaf(10, device), unused = leaf(100'000, device);
    const at::Tensor table = at::ones({kWords, 3}, doubles).requires_grad_();
    DistributedOptions options = by_density();
    options.device_window = true;
    Sgd optimizer({weights, unused, table}, torch::optim::SGDOptions(0.0), options, runtime);
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      (sparse_loss(table, rows_of(runtime.topology().rank)) + weights.sum()).backward();
      optimizer.step();
      EXPECT_TRUE(table.grad().is_sparse());
    }
  });
  const std::vector<std::string> shared = registrations();
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_NE(shared.front().find("64"), std::string::npos) << shared.front();
}

TEST_F(TorchDeviceLayout, GradientsOfAnotherTypeThanTheirParameter) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    const at::TensorOptions narrow = at::TensorOptions(at::kBFloat16).device(device.name());
    const at::Tensor weights = at::ones({300}, narrow).requires_grad_();
    weights.set_grad_dtype(at::kFloat);
    GradientReducer reducer({weights}, {.device_window = true}, runtime);
    for (int i = 0; i < 6; ++i) {
      (weights.to(at::kFloat) * (runtime.topology().rank + 1.0)).sum().backward();
      reducer.before_step();
      EXPECT_EQ(weights.grad().scalar_type(), at::kFloat);
      EXPECT_EQ(weights.grad().cpu()[0].item<double>(), 1.5);
      reducer.before_zero_grad();
      weights.mutable_grad().reset();
    }
  });
  EXPECT_EQ(registrations().size(), 1u);
}

// In a backward pass ranks may wait for steps of several reducers in different orders.
TEST_F(TorchDeviceLayout, NothingIsSharedInABackwardPass) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor a = leaf(3, device), b = leaf(10, device);
    const DistributedOptions options{.device_window = true, .synchronize_in_backward = true};
    GradientReducer of_a({a}, options, runtime), of_b({b}, options, runtime);
    const bool turn = runtime.topology().rank == 1;
    for (int step = 0; step < 3; ++step) {
      const at::Tensor first = turn ? a.sum() : b.sum(), second = turn ? b.sum() : a.sum();
      (first + second).backward();
      for (GradientReducer* reducer : {&of_a, &of_b}) reducer->before_step();
      for (GradientReducer* reducer : {&of_a, &of_b}) reducer->before_zero_grad();
      a.mutable_grad().reset();
      b.mutable_grad().reset();
    }
  });
  EXPECT_EQ(registrations().size(), 2u);
}

// A parameter that is unfrozen, with which there are to be more slots.
struct Unfreezing {
  Unfreezing(Runtime& runtime, const FakeTorchDevice& device)
      : weights(at::ones({3}, device.name()).requires_grad_()),
        late(at::ones({1000}, at::TensorOptions(at::kDouble).device(device.name()))),
        optimizer({weights, late}, torch::optim::SGDOptions(0.0), {.device_window = true}, runtime) {}

  void step(double factor) {
    optimizer.zero_grad();
    ((weights * factor).sum() + (late.requires_grad() ? late.sum() : weights.sum() * 0)).backward();
    optimizer.step();
  }

  const at::Tensor weights, late;
  Sgd optimizer;
};

TEST_F(TorchDeviceLayout, NothingIsSharedWhileARankHasJoined) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    Unfreezing training(runtime, device);
    for (int i = 0; i < 3; ++i) training.step(1.0);
    training.late.requires_grad_(true);
    if (runtime.topology().rank == 0) {
      for (int i = 0; i < 2; ++i) EXPECT_NO_THROW(training.step(1.0));
    }
    join(runtime);
    for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(training.step(1.0));
  });
  EXPECT_EQ(registrations().size(), 2u);
}

// What has no slot any more still has one in the window before.
TEST_F(TorchDeviceLayout, AGradientThatIsKeptStaysWhereMemoryWasLackingSince) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    const Rank rank = runtime.topology().rank;
    Unfreezing training(runtime, device);
    for (int i = 0; i < 2; ++i) training.step(1.0);
    const at::Tensor kept = training.weights.grad();
    training.late.requires_grad_(true);
    if (rank == 1) devices_[1]->device().take_memory_from(4000);
    for (int i = 0; i < 3; ++i) training.step(5.0 + i);
    EXPECT_EQ(kept.cpu()[0].item<double>(), 1.0) << "rank " << rank;
    EXPECT_EQ(training.weights.grad().cpu()[0].item<double>(), 7.0) << "rank " << rank;
  });
}

}  // namespace
}  // namespace rueda
