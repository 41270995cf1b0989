// SPDX-License-Identifier: Apache-2.0
// Commits of an elastic::State that keeps a ShardedOptimizer.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "core/engine/runtime.h"
#include "rueda/torch/elastic/state.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"
#include "tests/threads/torch/elastic/trained.h"

namespace rueda::elastic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ShardedCommits, LeaveParametersOutOfTheModel) {
  run_ranks(1, [](Runtime& runtime) {
    torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
    ShardedOptimizer<torch::optim::SGD> optimizer(model->parameters(), torch::optim::SGDOptions(0.1), {},
                                                  runtime);
    State state({{"model", model}, {"optimizer", optimizer}});
    state.sync(runtime);
    std::vector<bool> kinds;
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      model->forward(at::randn({8, 3})).square().mean().backward();
      optimizer.step();
      state.commit();
      kinds.push_back(state.is_light());
    }
    EXPECT_THAT(kinds, ElementsAre(false, true, true));
    const at::Tensor weight = model->parameters()[0].detach(), mean = model->buffers()[0];
    const at::Tensor committed = weight.clone(), mean_then = mean.clone();
    model->forward(at::randn({8, 3}));
    optimizer.param_groups()[0].options().set_lr(5);
    state.restore();
    EXPECT_TRUE(at::equal(weight, committed));
    EXPECT_TRUE(at::equal(mean, mean_then));
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.1);
  });
}

TEST(ShardedCommits, AreRestoredBySync) {
  run_ranks(1, [](Runtime& runtime) {
    torch::nn::Linear model(3, 1);
    ShardedOptimizer<torch::optim::AdamW> optimizer(model->parameters(), torch::optim::AdamWOptions(0.1), {},
                                                    runtime);
    State state({{"model", model}, {"optimizer", optimizer}});
    const auto step = [&] {
      optimizer.zero_grad();
      model->forward(at::ones({1, 3})).sum().backward();
      optimizer.step();
    };
    step();
    state.commit();
    const std::string committed = content_of(optimizer);
    const at::Tensor weight = model->weight.detach().clone();
    step();
    state.restore();
    EXPECT_THAT(words_of([&] { step(); }), HasSubstr("call sync()"));
    state.sync(runtime);
    EXPECT_TRUE(at::equal(model->weight, weight));
    EXPECT_TRUE(content_of(optimizer) == committed);
    step();
  });
}

}  // namespace
}  // namespace rueda::elastic
