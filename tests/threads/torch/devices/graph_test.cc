// SPDX-License-Identifier: Apache-2.0
// Steps of LibTorch captured into graphs. The ranks are threads, their devices and NCCL fakes; a graph of
// these holds what Rueda gives the device, while LibTorch's own operators run once, in the capture.
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/capture.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/fakes/torch/fake_torch_devices.h"
#include "tests/support/worlds/nccl_world.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Purpose: one rank's device, whose default stream may be captured.
struct GraphDevice {
  explicit GraphDevice(Rank rank, FakeDevice& device) : fake(device), torch(rank, device) {}

  void capture_and_keep(Runtime& runtime, const std::function<void()>& body) {
    rueda::capture(
        [&] {
          fake.begin_capture(stream());
          body();
          graph = fake.end_capture(stream());
        },
        runtime);
  }
  void run() {
    fake.run(graph, stream());
    fake.finish();
  }
  DeviceStream stream() const { return torch.stream(captured).native_handle(); }

  FakeDevice& fake;
  FakeTorchDevice torch;
  FakeDevice::Graph graph;
  c10::StreamId captured = 0;
};

class TorchGraph : public NcclWorld {
 protected:
  void SetUp() override {
    if (!FakeTorchDevice::possible()) GTEST_SKIP() << "torch has CUDA in this process";
  }
  void run_torch(const std::function<void(Runtime&, GraphDevice&)>& body) {
    run(2, [&](Runtime& runtime, FakeDevice& fake) {
      GraphDevice device(runtime.topology().rank, fake);
      body(runtime, device);
      fake.finish();
    });
  }
};

// Until both ranks' graphs are through: a device moves on when somebody asks.
void run_until(GraphDevice& device, const at::Tensor& tensor, double wanted) {
  device.run();
  for (int look = 0; look < 100000 && tensor.cpu()[0].item<double>() != wanted; ++look) device.fake.finish();
  EXPECT_EQ(tensor.cpu()[0].item<double>(), wanted);
}

TEST_F(TorchGraph, AnOperationIsAgreedOnOnce) {
  run_torch([](Runtime& runtime, GraphDevice& device) {
    const at::Tensor tensor = at::ones({10}, device.torch.name());
    device.capture_and_keep(runtime, [&] { allreduce_(tensor, "t", {ReduceOp::sum}, runtime); });
    EXPECT_EQ(tensor.cpu()[9].item<double>(), 1.0);
    const std::uint64_t plans = runtime.metrics().plans;
    run_until(device, tensor, 2.0);
    run_until(device, tensor, 4.0);
    EXPECT_EQ(runtime.metrics().plans, plans);
  });
}

// Purpose: one parameter whose gradient is this rank's number from 1 on, on any device.
struct Training {
  Training(Runtime& runtime, at::Device device)
      : mine(runtime.topology().rank + 1.0),
        weight(at::ones({4}, device).requires_grad_()),
        optimizer({weight}, torch::optim::SGDOptions(0.0), {}, runtime) {}

  void step() {
    optimizer.zero_grad();
    (weight * mine).sum().backward();
    optimizer.step();
  }

  const double mine;
  at::Tensor weight;
  DistributedOptimizer<torch::optim::SGD> optimizer;
};

TEST_F(TorchGraph, AStepOfADistributedOptimizerReducesItsGradients) {
  run_torch([](Runtime& runtime, GraphDevice& device) {
    Training training(runtime, device.torch.name());
    training.step();
    EXPECT_EQ(training.weight.grad().cpu()[0].item<double>(), 1.5);
    const long waits = device.torch.host_waits();
    device.capture_and_keep(runtime, [&] { training.step(); });
    EXPECT_EQ(device.torch.host_waits(), waits);
    EXPECT_EQ(training.weight.grad().cpu()[0].item<double>(), training.mine)
        << "what the capture computes is not reduced";
    run_until(device, training.weight.grad(), 1.5);
    training.weight.mutable_grad().fill_(training.mine * 10);
    run_until(device, training.weight.grad(), 15.0);
  });
}

// As programs do: the optimizer is made on the default stream, which is not captured.
TEST_F(TorchGraph, AnOptimizerOfAnotherStreamIsCaptured) {
  run_torch([](Runtime& runtime, GraphDevice& device) {
    Training training(runtime, device.torch.name());
    device.captured = 1;
    const c10::StreamGuard side(device.torch.stream(1));
    for (int warm = 0; warm < 2; ++warm) training.step();
    EXPECT_EQ(training.weight.grad().cpu()[0].item<double>(), 1.5);
    device.capture_and_keep(runtime, [&] { training.step(); });
    EXPECT_EQ(training.weight.grad().cpu()[0].item<double>(), training.mine)
        << "it was reduced on the default stream";
    run_until(device, training.weight.grad(), 1.5);
  });
}

TEST_F(TorchGraph, SchedulesThatDifferFromStepToStepAreRefused) {
  run_torch([](Runtime& runtime, GraphDevice& device) {
    const at::Tensor weight = at::ones({4}, device.torch.name()).requires_grad_();
    DistributedOptions options;
    options.schedule = SyncSchedule::one_step_late();
    DistributedOptimizer<torch::optim::SGD> optimizer({weight}, torch::optim::SGDOptions(0.0), options,
                                                      runtime);
    EXPECT_THAT([&] { capture([&] { optimizer.step(); }, runtime); },
                ThrowsMessage<InvalidArgument>(HasSubstr("schedule one_step_late is captured")));
  });
}

TEST(Capture, WithoutADeviceItSaysSo) {
  MemoryNetwork network(1);
  run_ranks_of(
      1,
      [](Runtime& runtime) {
        EXPECT_THAT([&] { capture([] {}, Scope(runtime)); },
                    ThrowsMessage<InvalidArgument>(HasSubstr(
                        "capture: rank 0 has no device whose work could be captured: there is no driver")));
      },
      [&](Rank rank) {
        RuntimeComponents components = memory_components(network, rank, 1, {});
        components.no_accelerator = "no driver";
        return components;
      });
}

}  // namespace
}  // namespace rueda
