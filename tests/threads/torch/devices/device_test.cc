// SPDX-License-Identifier: Apache-2.0
// Training with parameters on devices: the ranks are threads, their devices and NCCL fakes, and LibTorch's
// operators for CUDA run on the host. Compared with the same training in host memory.
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/grouped_operations.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/nn/distributed_model.h"
#include "rueda/torch/nn/sync_batch_norm.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {
namespace {

class TorchDevice : public TorchDeviceWorld {};

TEST_F(TorchDevice, TheFakeComputesAsTheHostDoes) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const Regression host;
    const std::vector<at::Tensor> leaves = leaves_on(host, device.name());
    ASSERT_TRUE(leaves[0].is_cuda());
    const Batch batch = make_batch(runtime.topology().rank, 4);
    const at::Tensor loss = loss_of(leaves, to_device(batch, device.name()));
    host.loss(batch).backward();
    loss.backward();
    for (std::size_t i = 0; i < leaves.size(); ++i)
      EXPECT_LT(difference(leaves[i].grad().cpu(), host[i].grad()), 1e-12) << i;
  });
}

TEST_F(TorchDevice, AResultIsThereForWhatComesAfterIt) {
  run_torch(3, [](Runtime& runtime, const FakeTorchDevice& device) {
    at::Tensor tensor = at::full({100}, runtime.topology().rank + 1.0, device.name());
    const long waits = device.host_waits();
    const at::Tensor twice = allreduce(tensor, "t", {ReduceOp::sum}, runtime) * 2;
    EXPECT_EQ(device.host_waits(), waits);
    EXPECT_EQ(twice.cpu()[99].item<double>(), 12.0);
  });
}

// The parameters after some steps of `train` on the host alone, on all ranks' batches together.
template <class Options>
std::vector<at::Tensor> trained_alone(Rank ranks, int steps, const Options& options, double clip) {
  const Regression model;
  torch::optim::SGD optimizer(model.tensors(), options);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    model.loss(make_batch(step * 4L * ranks, 4L * ranks)).backward();
    if (clip > 0) {
      const std::vector<at::Tensor> parameters = model.tensors();
      clip_gradients(parameters, norm_of_gradients(parameters), clip);
    }
    optimizer.step();
  }
  return model.tensors();
}

struct Way {
  const char* name;
  bool overlap;
  bool set_to_none;
  double clip;
  friend void PrintTo(const Way& way, std::ostream* stream) { *stream << way.name; }
};

class TorchDeviceTraining : public TorchDevice, public testing::WithParamInterface<Way> {};

TEST_P(TorchDeviceTraining, EqualsThatOfOneProcessAndTheHostNeverWaits) {
  const Way way = GetParam();
  constexpr int kSteps = 4;
  const torch::optim::SGDOptions options = torch::optim::SGDOptions(0.5).momentum(0.9);
  const std::vector<at::Tensor> wanted = trained_alone(2, kSteps, options, way.clip);
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    const std::vector<at::Tensor> leaves = leaves_on(Regression(), device.name());
    DistributedOptions distributed;
    distributed.overlap = way.overlap;
    distributed.measure_norm = way.clip > 0;
    DistributedOptimizer<torch::optim::SGD> optimizer(leaves, options, distributed, runtime);
    std::vector<Batch> batches;
    for (int step = 0; step < kSteps; ++step)
      batches.push_back(to_device(make_batch((step * 2L + runtime.topology().rank) * 4, 4), device.name()));
    const long waits = device.host_waits();
    for (const Batch& batch : batches) {
      optimizer.zero_grad(way.set_to_none);
      loss_of(leaves, batch).backward();
      if (way.clip > 0) optimizer.clip_grad_norm_(way.clip);
      optimizer.step();
    }
    EXPECT_EQ(device.host_waits(), waits);
    expect_near(leaves, wanted);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, TorchDeviceTraining,
                         testing::Values(Way{"Overlapping", true, true, 0}, Way{"AtTheEnd", false, true, 0},
                                         Way{"IntoTheSameGradients", true, false, 0},
                                         Way{"Clipped", true, true, 0.05}),
                         [](const auto& info) { return info.param.name; });

TEST_F(TorchDevice, ANormIsReadWhereItIsWanted) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor leaf = at::ones({4}, device.name()).requires_grad_();
    GradientReducer reducer({leaf}, {}, runtime);
    (leaf * 2).sum().backward();
    EXPECT_EQ(reducer.clip_grad_norm_(1.0), 4.0);
    EXPECT_NEAR(reducer.grad_norm(), 1.0, 1e-6);
    EXPECT_NEAR(leaf.grad().cpu()[3].item<double>(), 0.5, 1e-6);
    leaf.mutable_grad().fill_(std::numeric_limits<double>::infinity());
    EXPECT_FALSE(std::isfinite(reducer.clip_grad_norm_(1.0)));
    EXPECT_TRUE(std::isinf(leaf.grad().cpu()[0].item<double>())) << "left alone";
  });
}

class TorchDeviceSchedules : public TorchDevice, public testing::WithParamInterface<const char*> {};

// As in the host's memory, which is compared with plain training elsewhere.
TEST_P(TorchDeviceSchedules, DoAsInTheHostsMemory) {
  constexpr int kSteps = 6;
  const auto train = [](Runtime& runtime, at::Device device) {
    const std::vector<at::Tensor> leaves = leaves_on(Regression(), device);
    DistributedOptions distributed;
    distributed.schedule = SyncSchedule::parse(GetParam());
    DistributedOptimizer<torch::optim::AdamW> optimizer(leaves, torch::optim::AdamWOptions(0.01), distributed,
                                                        runtime);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      loss_of(leaves, to_device(make_batch((step * 2L + runtime.topology().rank) * 4, 4), device)).backward();
      optimizer.step();
    }
    optimizer.flush();
    return leaves;
  };
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    expect_near(train(runtime, device.name()), train(runtime, at::kCPU));
  });
}

INSTANTIATE_TEST_SUITE_P(All, TorchDeviceSchedules,
                         testing::Values("every_step", "accumulate:3", "local_sgd:2", "diloco:3", "adaptive",
                                         "one_step_late"));

// A program's own stream, and one that it goes on with before the reduction is over.
TEST_F(TorchDevice, AnyStreamWillDo) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const c10::Stream second = device.stream(2);
    const std::vector<at::Tensor> leaves{at::ones({1000}, device.name()).requires_grad_()};
    GradientReducer reducer(leaves, {}, runtime);
    at::Tensor loss;
    {
      const c10::StreamGuard there(second);
      loss = (leaves[0] * (runtime.topology().rank + 1.0)).sum();
    }
    loss.backward();
    const c10::StreamGuard there(device.stream(1));
    reducer.synchronize();
    EXPECT_EQ((leaves[0].grad() * 2).cpu()[999].item<double>(), 3.0);
  });
}

// Memory that an operation has made is of the stream on which it was asked for.
TEST_F(TorchDevice, AResultIsKeptForTheStreamThatWaitsForIt) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const TensorHandle handle = allgather_async(at::ones({3}, device.name()), "t", runtime);
    const c10::StreamGuard there(device.stream(2));
    const at::Tensor all = handle.wait();
    EXPECT_TRUE(device.is_kept_for(all, 0));
    EXPECT_TRUE(device.is_kept_for(all, 2));
    EXPECT_FALSE(device.is_kept_for(all, 1));
  });
}

TEST_F(TorchDevice, NewOutputsAreKeptForTheStreamThatWaitsForThem) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor ones = at::ones({3}, device.name());
    const std::vector<at::Tensor> both{ones, ones};
    std::vector<TensorHandle> handles = grouped_allreduce_async(both, "group", {}, runtime);
    handles.push_back(allreduce_async(ones, "sum", {}, runtime));
    handles.push_back(broadcast_async(ones, 0, "broadcast", runtime));
    const c10::StreamGuard there(device.stream(2));
    for (const TensorHandle& handle : handles) EXPECT_TRUE(device.is_kept_for(handle.wait(), 2));
    EXPECT_FALSE(device.is_kept_for(allreduce_async_(ones, "in place", {}, runtime).wait(), 2)) << "not ours";
  });
}

// The program goes on with the sender's tensor on its stream, and the host waits for nothing.
TEST_F(TorchDevice, MessagesAreInTheOrderOfStreams) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const bool sends = runtime.topology().rank == 0;
    for (int round = 0; round < 20; ++round) {
      at::Tensor tensor = at::full({2, 3}, sends ? round : -1, device.name());
      if (sends) {
        tensor = round % 2 == 0 ? tensor : tensor.t();  // with gaps between its rows
        send(tensor, 1, "message", runtime);
        tensor.add_(100);
        EXPECT_EQ(tensor.cpu()[1][1].item<float>(), round + 100.0f);
      } else {
        if (round % 2 != 0) tensor = at::full({3, 2}, -1, device.name());
        recv(tensor, 0, "message", runtime);
        EXPECT_EQ(tensor.cpu()[1][1].item<float>(), static_cast<float>(round));
      }
    }
  });
}

TEST_F(TorchDevice, AMissingGradientIsZeros) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor all = at::ones({3}, device.name()).requires_grad_();
    const at::Tensor one = at::ones({3}, device.name()).requires_grad_();
    GradientReducer reducer({all, one}, {}, runtime);
    at::Tensor loss = all.sum();
    if (runtime.topology().rank == 0) loss = loss + one.sum() * 4;
    loss.backward();
    reducer.synchronize();
    EXPECT_EQ(one.grad().cpu()[1].item<double>(), 2.0);
  });
}

TEST_F(TorchDevice, AWeightThatIsNotLaidOutRowByRowIsReducedToo) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor weight =
        at::arange(6, at::kDouble).view({2, 3}).t().to(device.name()).detach().requires_grad_();
    ASSERT_FALSE(weight.is_contiguous());
    GradientReducer reducer({weight}, {}, runtime);
    (weight * weight).sum().backward();
    reducer.synchronize();
    EXPECT_LT(difference(weight.grad().cpu(), 2 * weight.detach().cpu()), 1e-12);
  });
}

struct PerceptronImpl : torch::nn::Module {
  explicit PerceptronImpl(const std::vector<at::Tensor>& values) {
    to(at::kDouble);
    const std::vector<at::Tensor> own = parameters();
    for (std::size_t i = 0; i < own.size(); ++i) own[i].set_data(values[i].detach());
  }
  at::Tensor forward(const at::Tensor& input) { return output(hidden(input).tanh()); }

  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(4, 8));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(8, 2));
};
TORCH_MODULE(Perceptron);

TEST_F(TorchDevice, ADistributedModelTrainsFromTheRootsStart) {
  const torch::optim::SGDOptions options(0.5);
  const std::vector<at::Tensor> wanted = trained_alone(2, 2, options, 0);
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    const Rank rank = runtime.topology().rank;
    DistributedModel model(Perceptron(leaves_on(Regression(1 + rank), device.name())), {.check_every = 1},
                           runtime);
    DistributedOptimizer<torch::optim::SGD> optimizer(model->parameters(), options, {}, runtime);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      const Batch batch = to_device(make_batch((step * 2L + rank) * 4, 4), device.name());
      (model(batch.inputs) - batch.targets).square().mean().backward();
      optimizer.step();
    }
    expect_near(model->parameters(), wanted);
  });
}

TEST_F(TorchDevice, SyncBatchNormSeesAllRanksWithoutAWaitOfTheHost) {
  const at::Tensor inputs = make_batch(0, 8).inputs;  // [8, 4]
  const auto outputs = [&](Runtime& runtime, const FakeTorchDevice& fake, at::Device device,
                           at::Tensor& gradient) {
    SyncBatchNorm norm(torch::nn::BatchNormOptions(4), runtime);
    norm->to(at::kDouble);
    norm->to(device);
    const at::Tensor mine =
        inputs.narrow(0, runtime.topology().rank * 4, 4).detach().to(device).requires_grad_();
    const long waits = fake.host_waits();
    const at::Tensor result = norm->forward(mine);
    (result * result * result).sum().backward();
    EXPECT_EQ(fake.host_waits(), waits);
    gradient = mine.grad();
    return result;
  };
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    at::Tensor there, here;
    const at::Tensor on_device = outputs(runtime, device, device.name(), there);
    expect_near({on_device, there}, {outputs(runtime, device, at::kCPU, here), here});
  });
}

// It cannot say by which device NCCL is to connect it: until it can, all go by the host.
TEST_F(TorchDevice, ARankJoinsBeforeItsFirstTensor) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const auto sum = [&](const std::string& name) {
      return allreduce_async_(at::ones({3}, device.name()), name, {ReduceOp::sum}, runtime);
    };
    if (runtime.topology().rank == 0) {
      std::vector<TensorHandle> alone;
      for (const char* name : {"one", "two", "three"}) alone.push_back(sum(name));
      for (TensorHandle& each : alone) EXPECT_EQ(each.wait().cpu()[2].item<float>(), 1.0f);
    }
    join(runtime);
    EXPECT_EQ(sum("four").wait().cpu()[2].item<float>(), 2.0f);
  });
  EXPECT_EQ(count(1, "ncclAllReduce"), 1);
}

}  // namespace
}  // namespace rueda
