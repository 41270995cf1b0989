// SPDX-License-Identifier: Apache-2.0
// What was saved on one kind of device, loaded on another: the ranks are threads, their devices fakes.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/optim/adamw.h>

#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/state/checkpoint.h"
#include "rueda/torch/state/objects.h"
#include "rueda/torch/state/parameters.h"
#include "tests/fakes/torch/fake_torch_devices.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/nccl_world.h"

namespace rueda {
namespace {

class TorchDeviceCheckpoint : public NcclWorld {
 protected:
  // `body` is called by each rank with its device.
  void run_torch(Rank ranks, const std::function<void(Runtime&, at::Device)>& body) {
    run(ranks, [&](Runtime& runtime, FakeDevice& fake) {
      const FakeTorchDevice device(runtime.topology().rank, fake);
      body(runtime, device.name());
      fake.finish();
    });
  }
  void SetUp() override {
    if (!FakeTorchDevice::possible()) GTEST_SKIP() << "torch has CUDA in this process";
  }
};

// An optimizer of one leaf there, after a step.
struct Trained {
  explicit Trained(at::Device device, double gradient = 0.5)
      : leaf(at::ones({3}, device).requires_grad_()), optimizer({leaf}, torch::optim::AdamWOptions(0.1)) {
    leaf.mutable_grad() = at::full({3}, gradient, device);
    optimizer.step();
  }
  at::Tensor average() {
    return static_cast<torch::optim::AdamWParamState&>(*optimizer.state().at(leaf.unsafeGetTensorImpl()))
        .exp_avg();
  }

  at::Tensor leaf;
  torch::optim::AdamW optimizer;
};

// Of a gradient of 0.5, by which one that was overwritten is told apart.
void expect_loaded(Trained& into, at::Device device) {
  EXPECT_EQ(into.average().device(), device);
  EXPECT_NEAR(into.average().cpu()[2].item<double>(), 0.05, 1e-6);
}

TEST_F(TorchDeviceCheckpoint, StateIsLoadedWhereTheParametersAre) {
  const ScratchFolder folder;
  run_torch(2, [&](Runtime& runtime, at::Device device) {
    for (const at::Device from : {device, at::Device(at::kCPU)}) {
      const at::Device to = from.is_cpu() ? device : at::Device(at::kCPU);
      Trained saved(from);
      const std::string one = folder.path() / from.str().substr(0, 3);
      save(one, saved.optimizer, runtime);
      Trained alone(to, 4);
      load(one, alone.optimizer, runtime);
      expect_loaded(alone, to);
      save(one + ".all", {{"leaf", saved.leaf}, {"optimizer", saved.optimizer}}, runtime);
      Trained named(to, 4);
      at::Tensor leaf = at::zeros({3}, to);
      load(one + ".all", {{"leaf", leaf}, {"optimizer", named.optimizer}}, runtime);
      expect_loaded(named, to);
      EXPECT_EQ(leaf.device(), to);
    }
  });
}

TEST_F(TorchDeviceCheckpoint, StateThatIsBroadcastComesToTheOwnDevice) {
  run_torch(2, [](Runtime& runtime, at::Device device) {
    Trained trained(device, runtime.topology().rank == 0 ? 0.5 : 4);
    broadcast_optimizer_state(trained.optimizer, 0, runtime);
    expect_loaded(trained, device);
  });
}

}  // namespace
}  // namespace rueda
