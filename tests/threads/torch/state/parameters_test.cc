// SPDX-License-Identifier: Apache-2.0
// Parameters and optimizer state of one rank, given to all, on ranks that are threads.
#include "rueda/torch/state/parameters.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <mutex>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;

template <class Optimizer>
void train(Optimizer& optimizer, const Regression& model, int steps) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    model.loss(make_batch(step * 8, 8)).backward();
    optimizer.step();
  }
}

TEST(BroadcastParameters, MakesAllEqualToTheRoot) {
  run_ranks(3, [](Runtime& runtime) {
    const Regression model(1 + runtime.topology().rank);
    broadcast_parameters(model.named, 1, runtime);
    const Regression expected(2);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(difference(model[i], expected[i]), 0.0);
    EXPECT_TRUE(model[0].requires_grad());
  });
}

TEST(BroadcastParameters, TakesModulesUndefinedBuffersAndTiedWeights) {
  run_ranks(2, [](Runtime& runtime) {
    const torch::nn::Linear module(3, 2);
    const double value = 1.0 + runtime.topology().rank;
    for (at::Tensor& parameter : module->parameters()) parameter.detach().fill_(value);
    broadcast_parameters(module->named_parameters(), 0, runtime);
    EXPECT_EQ(module->weight[0][0].item<double>(), 1.0);
    at::Tensor tied = at::full({4}, value).t();
    const std::vector<std::pair<std::string, at::Tensor>> named{
        {"first", tied}, {"second", tied}, {"none", {}}};
    broadcast_parameters(named, 0, runtime);
    EXPECT_EQ(difference(tied, at::ones({4})), 0.0);
    broadcast_parameters(module->named_buffers(), 0, runtime);
  });
}

TEST(BroadcastParameters, OfAModelAreItsParametersAndBuffers) {
  run_ranks(2, [](Runtime& runtime) {
    const torch::nn::Sequential model(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
    const double value = 1.0 + runtime.topology().rank;
    const at::NoGradGuard no_grad;
    for (at::Tensor& tensor : model->parameters()) tensor.fill_(value);
    for (at::Tensor& tensor : model->buffers()) tensor.fill_(value);
    broadcast_parameters(*model, 1, runtime);
    ASSERT_EQ(model->parameters().size(), 4U);
    ASSERT_EQ(model->buffers().size(), 3U);
    for (const at::Tensor& tensor : model->parameters())
      EXPECT_EQ(tensor.sum().item<double>(), 2.0 * tensor.numel());
    for (const at::Tensor& tensor : model->buffers())
      EXPECT_EQ(tensor.sum().item<double>(), 2.0 * tensor.numel());
  });
}

TEST(BroadcastParameters, ADifferenceIsToldOnEveryRankAndTheNextWorks) {
  std::mutex mutex;
  std::vector<std::string> words;
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    Regression model(rank);
    model.named[2].second = at::full({2, rank == 2 ? 9 : 8}, rank, at::kDouble);
    try {
      broadcast_parameters(model.named, 0, runtime);
      ADD_FAILURE() << "no exception";
    } catch (const Mismatch& error) {
      std::lock_guard lock(mutex);
      words.emplace_back(error.what());
    }
    EXPECT_EQ(difference(model[0], Regression(rank)[0]), 0.0);
    if (rank == 1) model.named.pop_back();
    EXPECT_THROW(broadcast_parameters(model.named, 0, runtime), Mismatch);
    EXPECT_THROW(broadcast_parameters(model.named, 3, runtime), InvalidArgument);
    at::Tensor tensor = at::full({2}, rank);
    broadcast_(tensor, 2, "next", runtime);
    EXPECT_EQ(tensor[0].item<int>(), 2);
  });
  ASSERT_EQ(words.size(), 3U);
  for (const std::string& each : words) EXPECT_EQ(each, words.front());
  EXPECT_THAT(words.front(), HasSubstr("rank 2 has 'output.weight' float64 [2, 9]"));
}

TEST(BroadcastOptimizerState, RestoresStateAndOptions) {
  Regression reference;
  torch::optim::AdamW plain(reference.tensors(), torch::optim::AdamWOptions(1e-2));
  train(plain, reference, 5);
  plain.param_groups()[0].options().set_lr(3e-3);
  std::vector<std::vector<at::Tensor>> ends(3);
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    Regression model(rank == 0 ? 1 : 7);
    torch::optim::AdamW optimizer(model.tensors(), torch::optim::AdamWOptions(rank == 0 ? 1e-2 : 0.5));
    if (rank != 1) train(optimizer, model, rank == 0 ? 5 : 2);  // rank 1 has no state, rank 2 another one
    if (rank == 0) optimizer.param_groups()[0].options().set_lr(3e-3);
    broadcast_parameters(model.named, 0, runtime);
    broadcast_optimizer_state(optimizer, 0, runtime);
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 3e-3);
    train(optimizer, model, 3);
    ends[rank] = model.tensors();
  });
  train(plain, reference, 3);
  for (const auto& tensors : ends) {
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(tensors[i], reference[i]));
  }
}

TEST(BroadcastOptimizerState, EmptyStateEverywhereOrAtTheRoot) {
  run_ranks(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    Regression model;
    torch::optim::SGD optimizer(model.tensors(), torch::optim::SGDOptions(0.1 + rank).momentum(0.9));
    broadcast_optimizer_state(optimizer, 0, runtime);
    EXPECT_TRUE(optimizer.state().empty());
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.1);
    if (rank == 1) train(optimizer, model, 1);
    broadcast_optimizer_state(optimizer, 0, runtime);
    EXPECT_TRUE(optimizer.state().empty());
  });
}

// Strides, types and counters are those of the root. A rank that has such a tensor keeps its memory.
TEST(BroadcastOptimizerState, TensorsGoIntoTheMemoryThatIsThere) {
  run_ranks(3, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    at::Tensor image = at::zeros({2, 3, 4, 5}, at::kDouble).to(at::MemoryFormat::ChannelsLast);
    at::Tensor halves = at::zeros({7}, at::kBFloat16);
    torch::optim::Adam optimizer({image, halves}, torch::optim::AdamOptions(0.1).amsgrad(true));
    const auto moments = [&](const at::Tensor& parameter) -> torch::optim::AdamParamState& {
      return static_cast<torch::optim::AdamParamState&>(
          *optimizer.state().at(parameter.unsafeGetTensorImpl()));
    };
    if (rank != 1) {
      image.mutable_grad() = at::full_like(image, rank + 1);
      halves.mutable_grad() = at::full_like(halves, rank + 1);
      for (int step = 0; step <= rank; ++step) optimizer.step();
    }
    const void* const before = rank == 2 ? moments(image).exp_avg().data_ptr() : nullptr;
    broadcast_optimizer_state(optimizer, 0, runtime);
    EXPECT_EQ(moments(image).step(), 1);
    EXPECT_EQ(moments(image).exp_avg().strides(), image.strides());
    EXPECT_TRUE(moments(image).exp_avg().allclose(at::full_like(image, 0.1)));
    EXPECT_EQ(moments(halves).max_exp_avg_sq().scalar_type(), at::kBFloat16);
    if (rank == 2) EXPECT_EQ(moments(image).exp_avg().data_ptr(), before);
  });
}

TEST(BroadcastOptimizerState, ComplexNumbersGoInTheArchive) {
  run_ranks(2, [](Runtime& runtime) {
    at::Tensor phase = at::zeros({3}, at::kComplexDouble);
    torch::optim::SGD optimizer({phase}, torch::optim::SGDOptions(0.1).momentum(0.9));
    const at::Tensor gradient = at::full({3}, c10::complex<double>(1, 2), at::kComplexDouble);
    if (runtime.topology().rank == 0) {
      phase.mutable_grad() = gradient;
      optimizer.step();
    }
    broadcast_optimizer_state(optimizer, 0, runtime);
    const auto& state =
        static_cast<torch::optim::SGDParamState&>(*optimizer.state().at(phase.unsafeGetTensorImpl()));
    EXPECT_TRUE(at::equal(state.momentum_buffer(), gradient));
  });
}

TEST(BroadcastOptimizerState, DifferentGroupsAreAMismatch) {
  run_ranks(2, [](Runtime& runtime) {
    Regression model;
    std::vector<at::Tensor> tensors = model.tensors();
    tensors.resize(4 - runtime.topology().rank);
    torch::optim::SGD optimizer(tensors, torch::optim::SGDOptions(0.1));
    EXPECT_THROW(broadcast_optimizer_state(optimizer, 0, runtime), Mismatch);
    barrier(runtime);
  });
}

}  // namespace
}  // namespace rueda
