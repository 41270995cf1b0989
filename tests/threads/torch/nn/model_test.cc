// SPDX-License-Identifier: Apache-2.0
// DistributedModel on ranks that are threads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/nn/distributed_model.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/rank_words.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using torch::optim::SGD;
using torch::optim::SGDOptions;

// Two layers with values set by `seed`.
struct PerceptronImpl : torch::nn::Module {
  explicit PerceptronImpl(int seed) {
    to(at::kDouble);
    for (at::Tensor& parameter : parameters())
      parameter.set_data(make_parameter(parameter.sizes(), seed++).detach());
  }
  at::Tensor forward(const at::Tensor& input) { return output(hidden(input).tanh()); }
  at::Tensor loss(const Batch& batch) { return at::mse_loss(forward(batch.inputs), batch.targets); }

  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(4, 8));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(8, 2));
};
TORCH_MODULE(Perceptron);

class DistributedModels : public testing::TestWithParam<Rank> {};

TEST_P(DistributedModels, TrainFromTheRootsStartAsOneProcess) {
  constexpr int kRows = 3, kSteps = 5;
  const Rank ranks = GetParam(), root = ranks - 1;
  Perceptron whole(root);
  SGD plain(whole->parameters(), SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    plain.zero_grad();
    whole->loss(make_batch(kRows * ranks * step, kRows * ranks)).backward();
    plain.step();
  }
  run_ranks(ranks, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    DistributedModel model(Perceptron(rank), {.root = root, .check_every = 1}, runtime);
    DistributedOptimizer<SGD> optimizer(model->parameters(), SGDOptions(0.1).momentum(0.9), {}, runtime);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      const Batch batch = make_batch(kRows * (ranks * step + rank), kRows);
      at::mse_loss(model(batch.inputs), batch.targets).backward();
      optimizer.step();
    }
    model.check();
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_LT(difference(model->parameters()[i], whole->parameters()[i]), 1e-12);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DistributedModels, testing::Values(1, 2, 3));

TEST(DistributedModel, NamesTheParameterThatDiffersAtTheSameTrainingPassOnAllRanks) {
  RankWords words, later;
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    DistributedModel model(Perceptron(1), {.check_every = 3}, runtime);
    const at::Tensor inputs = make_batch(0, 2).inputs;
    model(inputs);
    {
      const at::NoGradGuard no_grad;
      model(inputs);  // no training pass
      if (rank == 1) model->output->bias[1] += 1e-15;
    }
    model->eval();
    model(inputs);  // none either
    model->train();
    model.forward(inputs);
    words.of([&] { model(inputs); });
    later.of([&] { model.check(); });
    model.broadcast_parameters();
    model.check();
    EXPECT_EQ(difference(model->output->bias, Perceptron(1)->output->bias), 0.0);
  });
  EXPECT_THAT(words.common(3), AllOf(HasSubstr("before training pass 3"), HasSubstr("broadcast_parameters()"),
                                     HasSubstr("rank 1 has 'output.bias' with the hash "),
                                     HasSubstr("ranks 0, 2 have 'output.bias' with the hash ")));
  EXPECT_THAT(later.common(3), testing::Not(HasSubstr("training pass")));
}

TEST(DistributedModel, ComparesValuesWhateverTheirStrides) {
  RankWords words;
  run_ranks(2, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    DistributedModel model(Perceptron(1), {}, runtime);
    at::Tensor weight = model->hidden->weight;
    if (rank == 0) weight.set_data(weight.detach().t().contiguous().t());
    model.check();
    weight.detach().zero_();
    if (rank == 1) weight.detach().neg_();  // -0.0: another value of the bits
    words.of([&] { model.check(); });
  });
  EXPECT_THAT(words.common(2), HasSubstr("'hidden.weight'"));
}

TEST(DistributedModel, BuffersAreEachRanksOwnUntilTheyAreBroadcast) {
  run_ranks(3, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    torch::nn::BatchNorm1d norm(2);
    norm->running_mean.fill_(rank + 5);
    DistributedModel model(norm, {.root = 2, .check_every = 1}, runtime);
    EXPECT_EQ(model->running_mean[0].item<float>(), 7.0F);
    model->running_mean.fill_(rank);
    model(at::ones({3, 2}));
    EXPECT_EQ(model->num_batches_tracked.item<int>(), 1);
    EXPECT_NEAR(model->running_mean[0].item<float>(), 0.9 * rank + 0.1, 1e-6);
    model.broadcast_buffers();
    EXPECT_NEAR(model->running_mean[0].item<float>(), 1.9, 1e-6);
  });
}

TEST(DistributedModel, OfAProcessSetIsForItsMembers) {
  RankWords words;
  run_ranks(3, [&](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(1, 3), runtime);
    const Rank rank = runtime.topology().rank;
    if (!set.included()) {
      EXPECT_THAT(error_message([&] { DistributedModel(Perceptron(1), {}, set); }),
                  HasSubstr("this rank is none"));
      return;
    }
    const auto module = std::make_shared<PerceptronImpl>(rank);
    DistributedModel model(module, {}, set);
    EXPECT_EQ(model.module(), module);
    EXPECT_EQ(difference(model->hidden->weight, Perceptron(1)->hidden->weight), 0.0);  // of the first member
    if (rank == 2) model->hidden->bias.detach()[0] = 9;
    words.of([&] { model.check(); });
  });
  EXPECT_THAT(words.common(2), AllOf(HasSubstr("rank 1 has 'hidden.bias'"), HasSubstr("rank 2 has 'hidden")));
}

TEST(DistributedModel, MistakesAreTold) {
  run_ranks(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const auto refusal = [&](const DistributedModelOptions& options) {
      return error_message([&] { DistributedModel(Perceptron(1), options, runtime); });
    };
    EXPECT_THAT(refusal({.root = 2}), HasSubstr("from rank 2; it must be one of ranks 0-1"));
    EXPECT_THAT(refusal({.check_every = -1}), HasSubstr("check_every is -1"));
    EXPECT_THAT(refusal({.check_every = 1 + rank}), HasSubstr("rank 1 has check_every 2"));
    EXPECT_THAT(refusal({.root = rank}), HasSubstr("rank 0 has root 0, rank 1 has root 1"));
    EXPECT_THAT(error_message([&] { DistributedModel(std::shared_ptr<PerceptronImpl>(), {}, runtime); }),
                HasSubstr("of no module"));
    torch::nn::Linear linear(2 + rank, 2);
    EXPECT_THROW(DistributedModel(linear, {}, runtime), Mismatch);
  });
}

}  // namespace
}  // namespace rueda
