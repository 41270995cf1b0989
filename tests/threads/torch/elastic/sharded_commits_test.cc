// SPDX-License-Identifier: Apache-2.0
// Commits of an elastic::State that keeps a ShardedOptimizer or a ShardedModel.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <utility>

#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/unit_scheduler.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/elastic/state.h"
#include "rueda/torch/sharding/sharded_model.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/layered_model.h"
#include "tests/support/training/regression.h"
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

// Purpose: a LayeredModel whose ShardedModel a State keeps.
struct KeptModel {
  KeptModel(bool share, Runtime& runtime)
      : runtime(runtime),
        sharded(model, {.units = model.units(), .share = share}, torch::optim::AdamWOptions(0.01), runtime),
        state({{"model", model}, {"optimizer", sharded}}) {
    model.runner = sharded.runner();
    state.sync(runtime);
  }
  void backward() {
    sharded.zero_grad();
    const Batch batch = make_batch(6 * runtime.topology().rank, 6);
    sharded.run([&] { return model.loss(batch); }).backward();
  }
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      backward();
      sharded.step();
      state.commit();
    }
  }
  // Collective.
  double loss() {
    const at::NoGradGuard no_grad;
    return sharded.run([&] { return model.loss(make_batch(0, 6)); }).item<double>();
  }

  Runtime& runtime;
  LayeredModel model;
  ShardedModel<torch::optim::AdamW> sharded;
  State state;
};

class ShardedModelCommits : public testing::TestWithParam<bool> {
 protected:
  void on_three_ranks(const std::function<void(KeptModel&)>& test) {
    run_on_one_host(3, [&](Runtime& runtime) {
      KeptModel kept(GetParam(), runtime);
      EXPECT_EQ(kept.sharded.shares_parameters(), GetParam());
      test(kept);
    });
  }
};

TEST_P(ShardedModelCommits, AreLightAndAreRestoredBySync) {
  on_three_ranks([](KeptModel& kept) {
    kept.train(1);
    EXPECT_FALSE(kept.state.is_light());
    const double committed = kept.loss();
    kept.backward();
    kept.sharded.step();
    EXPECT_NE(kept.loss(), committed);
    kept.state.restore();
    EXPECT_THAT(words_of([&] {
                  kept.backward();
                  kept.sharded.step();
                }),
                HasSubstr("of a sharded model, and this rank has the parts of step 2: call sync()"));
    kept.state.sync(kept.runtime);
    EXPECT_EQ(kept.loss(), committed);
    kept.train(3);
    EXPECT_TRUE(kept.state.is_light());
    kept.sharded.param_groups()[0].options().set_lr(5);
    kept.state.restore();
    EXPECT_EQ(kept.sharded.param_groups()[0].options().get_lr(), 0.01);
  });
}

TEST_P(ShardedModelCommits, AreFollowedByStatesOfTheWhole) {
  on_three_ranks([](KeptModel& kept) {
    kept.train(2);
    const SavedModel saved = kept.sharded.state_dict();
    const double then = kept.loss();
    kept.train(2);
    const double later = kept.loss();
    EXPECT_NE(later, then);
    kept.sharded.load_state_dict(saved);
    EXPECT_EQ(kept.loss(), then);
    kept.state.commit();
    EXPECT_FALSE(kept.state.is_light());
    kept.state.sync(kept.runtime);
    EXPECT_EQ(kept.loss(), then);
    kept.train(2);
    EXPECT_NEAR(kept.loss(), later, 1e-12);
  });
}

TEST_P(ShardedModelCommits, AreWhatAllGoBackToAfterALoadThatFails) {
  on_three_ranks([](KeptModel& kept) {
    kept.train(3);
    ASSERT_TRUE(kept.state.is_light());
    const double committed = kept.loss();
    SavedModel saved = kept.sharded.state_dict();
    for (SavedParameter& each : saved.parameters) each.value.fill_(7);
    if (!saved.parameters.empty()) saved.parameters.pop_back();  // one is missing
    EXPECT_THAT(words_of([&] { kept.sharded.load_state_dict(saved); }), HasSubstr("rank"));
    kept.state.restore();
    kept.state.sync(kept.runtime);
    EXPECT_EQ(kept.loss(), committed);
    kept.train(1);
  });
}

TEST_P(ShardedModelCommits, NeedGradientsThatStayWhereTheyAre) {
  on_three_ranks([](KeptModel& kept) {
    kept.train(1);
    kept.backward();
    const int rank = kept.runtime.topology().rank;
    std::vector<at::Tensor> own;  // copies have their gradients inside of step()
    for (const at::Tensor& each : kept.sharded.param_groups()[0].params()) {
      if (each.grad().defined()) own.push_back(each);
    }
    ASSERT_TRUE(!own.empty() || rank == 2);  // the last rank has no piece of so small a model
    for (const at::Tensor& each : own) each.mutable_grad().mul_(0.5);
    at::Tensor former;
    if (rank == 1) {
      former = own[0].grad();
      own[0].mutable_grad() = former.clone();
    }
    EXPECT_THAT(words_of([&] { kept.sharded.step(); }),
                HasSubstr(rank == 1 ? "rank 1: the gradient of parameter" : "rank 1 refuses it"));
    if (rank == 1) own[0].mutable_grad() = former;
    kept.sharded.step();
    kept.state.commit();
    kept.train(2);
    EXPECT_TRUE(kept.state.is_light());
  });
}

// The sum over the pieces of all ranks, and over the parameters.
std::pair<double, double> sums(const torch::optim::Optimizer& optimizer,
                               const std::vector<at::Tensor>& parameters, Runtime& runtime) {
  const at::NoGradGuard no_grad;
  at::Tensor of_pieces = at::zeros({1}, at::kDouble), of_all = at::zeros({1}, at::kDouble);
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& piece : group.params()) of_pieces.add_(piece.square().sum());
  }
  for (const at::Tensor& each : parameters) of_all.add_(each.square().sum());
  allreduce_(of_pieces, "sum_of_pieces", {ReduceOp::sum}, runtime);
  return {of_pieces.item<double>(), of_all.item<double>()};
}

TEST(CommitsOfAShardedModel, TakeChangesOfParametersToTheCopies) {
  run_on_one_host(3, [](Runtime& runtime) {
    KeptModel kept(/*share=*/true, runtime);
    for (int round = 0; round < 3; ++round) {
      kept.train(1);
      const at::NoGradGuard no_grad;
      barrier(runtime);
      if (runtime.topology().rank == round) {
        for (const at::Tensor& each : kept.model.parameters()) each.detach().mul_(0.5);
      }
      barrier(runtime);
      kept.state.commit();
      const auto [pieces, all] = sums(kept.sharded, kept.model.parameters(), runtime);
      EXPECT_NEAR(pieces, 2 * all, 1e-9 * all);  // each part and one copy
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Share, ShardedModelCommits, testing::Bool());

TEST(CommitsOfAShardedModel, NeedRanksThatHaveDividedTheModel) {
  run_on_one_host(2, [](Runtime& runtime) {
    LayeredModel model;
    const double before = model.head.sum().item<double>();
    // As it is made outside of elastic::run().
    const auto units = std::make_shared<UnitScheduler>(
        model, ShardedModelOptions{.units = model.units(), .share = false}, runtime, /*alone=*/true);
    model.runner = UnitRunner(units);
    EXPECT_EQ(model.head.sum().item<double>(), before);
    const at::Tensor loss = UnitCall(units, nullptr).run([&] { return model.loss(make_batch(0, 6)); });
    EXPECT_THAT(words_of([&] { loss.backward(); }), HasSubstr("was made outside of elastic::run()"));
    EXPECT_THAT(words_of([&] { units->clip(1); }), HasSubstr("this sharded model was made outside"));
  });
}

}  // namespace
}  // namespace rueda::elastic
