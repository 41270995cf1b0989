// SPDX-License-Identifier: Apache-2.0
// ShardedOptimizer and ShardedModel with parameters on devices, against DistributedOptimizer there.
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "core/base/error.h"
#include "core/byte_exchange.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/parameter_shards.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/optimizers/radam.h"
#include "rueda/torch/sharding/sharded_model.h"
#include "tests/support/training/layered_model.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

class TorchDeviceSharded : public TorchDeviceWorld {
 protected:
  void in_both_ways(Rank ranks, const TorchBody& body) {
    run_torch(ranks, body);
    run_torch_by_the_host(ranks, body);
  }
};

at::Tensor leaf_on(at::Device device, const at::Tensor& values) {
  return values.detach().to(device).requires_grad_();
}

// Parameters of which some are cut, some lie in one part, and one is of another type and memory order.
std::vector<at::Tensor> model_on(at::Device device) {
  std::vector<at::Tensor> model;
  for (const at::Tensor& each :
       {make_parameter({70, 61}, 1, at::kFloat), make_parameter({5000}, 2, at::kFloat),
        make_parameter({}, 3, at::kFloat), make_parameter({0, 3}, 4, at::kFloat),
        make_parameter({40, 31}, 5, at::kDouble), make_parameter({30, 50}, 6, at::kFloat).t()})
    model.push_back(leaf_on(device, each));
  return model;
}

// What the gradients of each step are made of: other values for each rank, whose sums are exact in any order.
std::vector<std::vector<at::Tensor>> factors_for(const std::vector<at::Tensor>& model, int steps, Rank rank) {
  std::vector<std::vector<at::Tensor>> factors(steps);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      const int seed = 10 * step + rank + static_cast<int>(i);
      const at::Tensor values = make_parameter(model[i].sizes(), seed, model[i].scalar_type()).detach();
      factors[step].push_back(((values * 64).round() / 64).to(model[i].device()));
    }
  }
  return factors;
}

void make_gradients(const std::vector<at::Tensor>& model, const std::vector<at::Tensor>& factors) {
  for (std::size_t i = 0; i < model.size(); ++i) (model[i] * factors[i]).sum().backward();
}

// The parameters after some steps, in which the host has waited for nothing.
template <class Optimizer, class Options>
std::vector<at::Tensor> trained(const Options& options, double clip, Runtime& runtime,
                                const FakeTorchDevice& device) {
  const std::vector<at::Tensor> model = model_on(device.name());
  DistributedOptions distributed;
  distributed.op = ReduceOp::sum;
  Optimizer optimizer(model, options, distributed, runtime);
  const auto factors = factors_for(model, 4, runtime.topology().rank);
  const long waits = device.host_waits();
  for (std::size_t step = 0; step < factors.size(); ++step) {
    optimizer.zero_grad(step % 2 == 0);
    make_gradients(model, factors[step]);
    if (clip > 0) optimizer.clip_grad_norm_(clip);
    optimizer.step();
  }
  EXPECT_EQ(device.host_waits(), waits);
  std::vector<at::Tensor> result;
  for (const at::Tensor& each : model) result.push_back(each.detach().cpu().clone());
  return result;
}

template <class Opt, class Options>
void expect_same_bits(const Options& options, double clip, Runtime& runtime, const FakeTorchDevice& device) {
  const auto whole = trained<DistributedOptimizer<Opt>>(options, clip, runtime, device);
  const auto parts = trained<ShardedOptimizer<Opt>>(options, clip, runtime, device);
  const auto start = model_on(at::kCPU);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(at::equal(whole[i], parts[i])) << "parameter " << i;
    EXPECT_TRUE(whole[i].numel() == 0 || difference(whole[i], start[i]) > 0) << "parameter " << i;
  }
}

TEST_F(TorchDeviceSharded, StepsHaveTheBitsOfTheWholeAndTheHostNeverWaits) {
  for (const Rank ranks : {1, 3}) {
    in_both_ways(ranks, [](Runtime& runtime, const FakeTorchDevice& device) {
      expect_same_bits<FusedAdamW>(AdamWOptions(0.02).amsgrad(true), 0.1, runtime, device);
    });
  }
}

TEST_F(TorchDeviceSharded, StepsOfAnyOptimizerHaveTheBitsOfTheWhole) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    expect_same_bits<torch::optim::AdamW>(AdamWOptions(0.02), 0, runtime, device);
    expect_same_bits<torch::optim::Adam>(torch::optim::AdamOptions(0.02), 0, runtime, device);
    expect_same_bits<torch::optim::SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true), 0, runtime, device);
    const auto rms_prop = torch::optim::RMSpropOptions(0.02).momentum(0.5);
    expect_same_bits<torch::optim::RMSprop>(rms_prop, 0, runtime, device);
    expect_same_bits<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.02), 0, runtime, device);
    expect_same_bits<RAdam>(RAdamOptions(0.05).betas({0.9, 0.8}), 0, runtime, device);
  });
}

using Adam = ShardedOptimizer<FusedAdamW>;

TEST_F(TorchDeviceSharded, HasAPartOfTheStateAndTheValuesOfRank0) {
  std::vector<std::int64_t> elements(2);
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    const Rank rank = runtime.topology().rank;
    const std::vector<at::Tensor> model = model_on(device.name());
    if (rank == 1) model[1].detach().fill_(7);
    Adam optimizer(model, AdamWOptions(0.1), {}, runtime);
    EXPECT_FALSE(optimizer.shares_parameters());
    EXPECT_LE(model[1].max().item<float>(), 1.0F);
    make_gradients(model, factors_for(model, 1, rank).front());
    optimizer.step();
    for (const auto& [key, state] : optimizer.state()) {
      const at::Tensor& average = static_cast<const torch::optim::AdamWParamState&>(*state).exp_avg();
      EXPECT_TRUE(average.is_cuda());
      elements[rank] += average.numel();
    }
  });
  EXPECT_EQ(elements[0] + elements[1], 70 * 61 + 5000 + 1 + 40 * 31 + 30 * 50);
  EXPECT_LE(std::abs(elements[0] - elements[1]), 2 * ParameterShards::kGrain);
}

// What is saved is in the host's memory, and is taken wherever the parameters are.
TEST_F(TorchDeviceSharded, ItsStateContinuesIt) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const Rank rank = runtime.topology().rank;
    const std::vector<at::Tensor> model = model_on(device.name());
    const auto factors = factors_for(model, 4, rank);
    Adam straight(model, AdamWOptions(0.1), {}, runtime);
    const auto step = [](Adam& optimizer, const std::vector<at::Tensor>& of, const auto& with) {
      optimizer.zero_grad();
      make_gradients(of, with);
      optimizer.step();
    };
    step(straight, model, factors[0]);
    step(straight, model, factors[1]);
    std::string bytes;
    SavedModel saved = straight.state_dict();
    if (rank == 0) bytes = bytes_of(saved);
    broadcast_bytes(bytes, 0, "state", runtime);
    saved = saved_of(bytes);
    for (const SavedParameter& each : saved.parameters) {
      for (const auto& [key, value] : each.state)
        EXPECT_FALSE(value.isTensor() && value.toTensor().is_cuda());
    }
    for (const at::Device where : {device.name(), at::Device(at::kCPU)}) {
      std::vector<at::Tensor> copies;
      for (const at::Tensor& each : model) copies.push_back(leaf_on(where, each));
      Adam resumed(copies, AdamWOptions(7.0), {}, runtime);
      resumed.load_state_dict(saved);
      const std::vector<at::Tensor> straight_on = model_on(device.name());
      for (std::size_t i = 0; i < model.size(); ++i) straight_on[i].detach().copy_(model[i].detach());
      Adam on(straight_on, AdamWOptions(7.0), {}, runtime);
      on.load_state_dict(saved);
      std::vector<at::Tensor> there;
      for (const at::Tensor& each : factors[2]) there.push_back(each.to(where));
      step(resumed, copies, there);
      step(on, straight_on, factors[2]);
      for (std::size_t i = 0; i < copies.size(); ++i)
        EXPECT_LT(difference(copies[i].cpu(), straight_on[i].cpu()), 1e-6) << i;
    }
  });
}

TEST_F(TorchDeviceSharded, ParametersAreOnOneDevice) {
  run_torch(1, [](Runtime& runtime, const FakeTorchDevice& device) {
    const std::vector<at::Tensor> both{leaf_on(device.name(), at::ones({3})),
                                       leaf_on(at::kCPU, at::ones({3}))};
    EXPECT_THAT(words_of([&] { Adam(both, AdamWOptions(0.1), {}, runtime); }),
                HasSubstr("parameter.0 is on the device cuda:0, and parameter.1 on cpu"));
    LayeredModel model;
    model.layers[1]->to(device.name());
    EXPECT_THAT(words_of([&] { ShardedModel<torch::optim::SGD>(model, {}, SGDOptions(0.1), runtime); }),
                HasSubstr("is on the device cuda:0, and others on cpu; a ShardedModel takes those of one"));
  });
}

constexpr int kPasses = 2, kSteps = 4;

std::vector<Batch> batches_on(at::Device device, Rank rank) {
  std::vector<Batch> batches;
  for (int i = 0; i < kSteps * kPasses; ++i)
    batches.push_back(to_device(make_batch((i * 4L + rank) * 6, 6), device));
  return batches;
}

std::vector<double> values_of(const std::vector<at::Tensor>& losses) {
  std::vector<double> values;
  for (const at::Tensor& each : losses) values.push_back(each.item<double>());
  return values;
}

std::vector<double> whole_losses(double clip, Runtime& runtime, const FakeTorchDevice& device) {
  LayeredModel model;
  model.to(device.name());
  DistributedOptions distributed;
  distributed.backward_passes_per_step = kPasses;
  DistributedOptimizer<FusedAdamW> optimizer(model.parameters(), AdamWOptions(0.02), distributed, runtime);
  const std::vector<Batch> batches = batches_on(device.name(), runtime.topology().rank);
  std::vector<at::Tensor> losses;
  for (std::size_t pass = 0; pass < batches.size(); ++pass) {
    if (pass % kPasses == 0) optimizer.zero_grad();
    losses.push_back(model.loss(batches[pass]));
    losses.back().backward();
    if (pass % kPasses == 0) continue;
    losses.push_back(at::scalar_tensor(static_cast<double>(optimizer.clip_grad_norm_(clip))));
    optimizer.step();
  }
  return values_of(losses);
}

std::vector<double> sharded_losses(double clip, Runtime& runtime, const FakeTorchDevice& device) {
  LayeredModel model;
  model.to(device.name());
  const ShardedModelOptions options{.units = model.units(), .backward_passes_per_step = kPasses};
  ShardedModel<FusedAdamW> shards(model, options, AdamWOptions(0.02), runtime);
  EXPECT_FALSE(shards.shares_parameters());
  model.runner = shards.runner();
  const std::vector<Batch> batches = batches_on(device.name(), runtime.topology().rank);
  std::vector<at::Tensor> losses;
  const long waits = device.host_waits();
  for (std::size_t pass = 0; pass < batches.size(); ++pass) {
    if (pass % kPasses == 0) shards.zero_grad();
    losses.push_back(shards.run([&] { return model.loss(batches[pass]); }));
    losses.back().backward();
    if (pass % kPasses == 0) continue;
    losses.push_back(shards.clip_grad_norm(clip).on_device());
    shards.step();
  }
  EXPECT_EQ(device.host_waits(), waits);
  return values_of(losses);
}

TEST_F(TorchDeviceSharded, AModelTrainsAsTheWholeDoesAndTheHostNeverWaits) {
  for (const Rank ranks : {1, 3}) {
    for (const double clip : {0.05, 1e3}) {
      in_both_ways(ranks, [&](Runtime& runtime, const FakeTorchDevice& device) {
        const std::vector<double> whole = whole_losses(clip, runtime, device);
        EXPECT_THAT(sharded_losses(clip, runtime, device),
                    testing::Pointwise(testing::DoubleNear(1e-7), whole));  // norms are in float32
        EXPECT_GT(std::abs(whole.front() - whole[whole.size() - 2]), 1e-3);
      });
    }
  }
}

bool is_there(const at::Tensor& parameter) {
  try {
    return parameter.const_data_ptr() != nullptr;
  } catch (const c10::Error&) {
    return false;
  }
}

int layers_there(const LayeredModel& model) {
  return static_cast<int>(
      std::ranges::count_if(model.layers, [](const auto& layer) { return is_there(layer->weight); }));
}

TEST_F(TorchDeviceSharded, AModelIsThereOnlyWhileItIsUsed) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    LayeredModel model(6);
    model.to(device.name());
    ShardedModel<torch::optim::SGD> shards(model, {.units = model.units()}, SGDOptions(0.1), runtime);
    model.runner = shards.runner();
    int most = 0;
    model.on_layer = [&](const at::Tensor& hidden) {
      most = std::max(most, layers_there(model));
      hidden.register_hook([&](const at::Tensor&) { most = std::max(most, layers_there(model)); });
    };
    const Batch batch = to_device(make_batch(0, 6), device.name());
    for (int step = 0; step < 3; ++step) {
      const at::Tensor loss = shards.run([&] { return model.loss(batch); });
      EXPECT_LE(layers_there(model), 1) << "the last is kept";
      loss.backward();
      EXPECT_EQ(layers_there(model), 0);
      EXPECT_FALSE(is_there(model.head));
      shards.step();
      EXPECT_THAT(words_of<c10::Error>([&] { (model.head + 1.0).sum(); }),
                  HasSubstr("are gathered only while it runs"));
    }
    EXPECT_GE(most, 1);
    EXPECT_LE(most, 2);
  });
}

// A unit that runs on another stream than the one before, during which it was gathered; and the root, which
// is there for all.
TEST_F(TorchDeviceSharded, WhatIsGatheredIsKeptForTheStreamThatUsesIt) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    LayeredModel model;
    model.to(device.name());
    ShardedModel<torch::optim::SGD> shards(model, {.units = model.units()}, SGDOptions(0.1), runtime);
    model.runner = shards.runner();
    const Batch batch = to_device(make_batch(0, 6), device.name());
    const auto forward = [&] {
      at::Tensor hidden = batch.inputs;
      for (std::size_t i = 0; i < model.layers.size(); ++i) {
        const auto id = static_cast<c10::StreamId>(1 + i);
        const c10::StreamGuard there(device.stream(id));
        hidden = model.runner(*model.layers[i], [&] {
          EXPECT_TRUE(device.is_kept_for(model.layers[i]->weight, id)) << i;
          return model.layers[i]->forward(hidden);
        });
      }
      const c10::StreamGuard there(device.stream(2));
      return shards.run([&] {
        EXPECT_TRUE(device.is_kept_for(model.head, 2));
        return at::linear(hidden, model.head).sum();
      });
    };
    for (int pass = 0; pass < 2; ++pass) {
      shards.run(forward).backward();
      shards.step();
    }
  });
}

TEST_F(TorchDeviceSharded, AModelIsSavedWholeAndContinued) {
  run_torch(3, [](Runtime& runtime, const FakeTorchDevice& device) {
    const std::vector<Batch> batches = batches_on(device.name(), runtime.topology().rank);
    using Model = ShardedModel<FusedAdamW>;
    const auto train = [&](LayeredModel& model, Model& shards, int from, int to) {
      std::vector<at::Tensor> losses;
      for (int step = from; step < to; ++step) {
        shards.zero_grad();
        losses.push_back(shards.run([&] { return model.loss(batches[step]); }));
        losses.back().backward();
        shards.step();
      }
      return values_of(losses);
    };
    LayeredModel model, other;
    model.to(device.name());
    other.to(device.name());
    Model shards(model, {.units = model.units()}, AdamWOptions(0.02), runtime);
    Model resumed(other, {.units = other.units()}, AdamWOptions(7.0), runtime);
    model.runner = shards.runner();
    other.runner = resumed.runner();
    train(model, shards, 0, 3);
    const SavedModel saved = shards.state_dict();
    for (const SavedParameter& each : saved.parameters) EXPECT_TRUE(each.value.is_cpu());
    resumed.load_state_dict(saved);
    EXPECT_EQ(train(other, resumed, 3, 6), train(model, shards, 3, 6));
  });
}

}  // namespace
}  // namespace rueda
