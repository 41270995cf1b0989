// SPDX-License-Identifier: Apache-2.0
// ShardedModel on ranks that are threads, against DistributedOptimizer: the same losses, a part of the
// memory.
#include "rueda/torch/sharding/sharded_model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "frameworks/torch/sharding/unit_scheduler.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "tests/support/training/layered_model.h"
#include "tests/support/training/regression.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

// The steps of a job: each rank's own loss in each.
struct Training {
  int steps = 10;
  int passes = 1;
  double clip = 0;  // 0: none
  bool tied = false;
  std::function<void(LayeredModel&, int step)> before{};  // each step
};

Batch batch_of(int step, int pass, Runtime& runtime) {
  const Topology& topology = runtime.topology();
  return make_batch(((step * 4 + pass) * topology.size + topology.rank) * 6, 6);
}

template <class Opt, class Options>
std::vector<double> whole_losses(const Training& training, const Options& options, Runtime& runtime) {
  LayeredModel model(3, training.tied);
  const std::vector<at::Tensor> parameters = without_repetitions(model.parameters());
  DistributedOptions distributed;
  distributed.backward_passes_per_step = training.passes;
  DistributedOptimizer<Opt> optimizer(parameters, options, distributed, runtime);
  std::vector<double> losses;
  for (int step = 0; step < training.steps; ++step) {
    if (training.before) training.before(model, step);
    optimizer.zero_grad();
    for (int pass = 0; pass < training.passes; ++pass) {
      const at::Tensor loss = model.loss(batch_of(step, pass, runtime));
      loss.backward();
      losses.push_back(loss.template item<double>());
    }
    optimizer.synchronize();
    if (training.clip > 0) losses.push_back(torch::nn::utils::clip_grad_norm_(parameters, training.clip));
    optimizer.step();
  }
  return losses;
}

template <class Opt, class Options>
std::vector<double> sharded_losses(const Training& training, const Options& options, bool share,
                                   Runtime& runtime) {
  LayeredModel model(3, training.tied);
  ShardedModelOptions sharded{.units = model.units(), .backward_passes_per_step = training.passes};
  sharded.share = share;
  ShardedModel<Opt> shards(model, sharded, options, runtime);
  model.runner = shards.runner();
  const Topology& topology = runtime.topology();
  EXPECT_EQ(shards.shares_parameters(), share && topology.size > 1 && topology.local_size == topology.size);
  std::vector<double> losses;
  for (int step = 0; step < training.steps; ++step) {
    if (training.before) training.before(model, step);
    shards.zero_grad();
    for (int pass = 0; pass < training.passes; ++pass) {
      const at::Tensor loss = shards.run([&] { return model.loss(batch_of(step, pass, runtime)); });
      loss.backward();
      losses.push_back(loss.template item<double>());
    }
    if (training.clip > 0) losses.push_back(shards.clip_grad_norm(training.clip));
    shards.step();
  }
  return losses;
}

template <class Opt, class Options>
void expect_same_losses(const Training& training, const Options& options, bool share, Runtime& runtime) {
  const std::vector<double> whole = whole_losses<Opt>(training, options, runtime);
  const std::vector<double> parts = sharded_losses<Opt>(training, options, share, runtime);
  EXPECT_THAT(parts, testing::Pointwise(testing::DoubleNear(1e-12), whole));
  EXPECT_GT(std::abs(whole.front() - whole.back()), 1e-3);
}

class ShardedModelLosses : public testing::TestWithParam<std::tuple<Rank, bool>> {
 protected:
  template <class Opt, class Options>
  void expect_same(const Training& training, const Options& options) {
    const auto [ranks, share] = GetParam();
    run_on_one_host(ranks, [&, share = share](Runtime& runtime) {
      expect_same_losses<Opt>(training, options, share, runtime);
    });
  }
};

TEST_P(ShardedModelLosses, AreThoseOfTheWhole) {
  expect_same<FusedAdamW>({}, AdamWOptions(0.02).weight_decay(0.1));
  expect_same<torch::optim::SGD>({}, SGDOptions(0.1).momentum(0.9));
}

TEST_P(ShardedModelLosses, ClippedAndAddedUpOverPasses) {
  expect_same<FusedAdamW>({.steps = 4, .passes = 3, .clip = 0.1}, AdamWOptions(0.02));
  expect_same<torch::optim::SGD>({.clip = 1e3}, SGDOptions(0.1));
}

TEST_P(ShardedModelLosses, WithUnitsThatAreLeftOut) {
  const Training training{.before = [](LayeredModel& model, int step) { model.skipped = step % 3; }};
  expect_same<FusedAdamW>(training, AdamWOptions(0.02).weight_decay(0.1));
}

TEST_P(ShardedModelLosses, WithFrozenParameters) {
  const Training training{.before = [](LayeredModel& model, int step) {
    model.layers[1]->weight.set_requires_grad(step % 4 != 1);
    for (const at::Tensor& each : model.layers[2]->parameters()) each.set_requires_grad(step % 4 != 2);
  }};
  expect_same<torch::optim::SGD>(training, SGDOptions(0.1));
}

TEST_P(ShardedModelLosses, WithTiedWeights) { expect_same<FusedAdamW>({.tied = true}, AdamWOptions(0.02)); }

INSTANTIATE_TEST_SUITE_P(Ranks, ShardedModelLosses,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Bool()));

TEST(ShardedModel, TrainsAcrossHosts) {
  MemoryNetwork network(4, 8, 2);
  run_ranks_on(network, 4, [](Runtime& runtime) {
    ASSERT_EQ(runtime.topology().local_size, 2);
    expect_same_losses<FusedAdamW>({}, AdamWOptions(0.02), true, runtime);
  });
}

TEST(ShardedModel, AGradientThatOneRankLacksIsZeroThere) {
  for (const bool share : {false, true}) {
    run_on_one_host(3, [&](Runtime& runtime) {
      const bool lacks = runtime.topology().rank == 1;
      const Training training{.before = [&](LayeredModel& model, int step) {
        for (const auto& layer : model.layers) layer->biased = !lacks || step % 2 == 0;
      }};
      expect_same_losses<torch::optim::SGD>(training, SGDOptions(0.1), share, runtime);
    });
  }
}

using Model = ShardedModel<torch::optim::SGD>;

bool is_there(const at::Tensor& parameter) {
  try {
    return parameter.const_data_ptr() != nullptr;
  } catch (const c10::Error&) {
    return false;
  }
}

int layers_there(const LayeredModel& model) {
  return static_cast<int>(std::ranges::count_if(
      model.layers, [](const auto& layer) { return is_there(layer->weight) && is_there(layer->bias); }));
}

TEST(ShardedModel, ParametersAreThereOnlyWhileTheyAreUsed) {
  run_on_one_host(2, [](Runtime& runtime) {
    LayeredModel model(6);
    Model shards(model, {.units = model.units(), .share = false}, SGDOptions(0.1).momentum(0.9), runtime);
    model.runner = shards.runner();
    int most = 0;
    model.on_layer = [&](const at::Tensor& hidden) {
      most = std::max(most, layers_there(model));
      if (hidden.requires_grad())
        hidden.register_hook([&](const at::Tensor&) { most = std::max(most, layers_there(model)); });
    };
    for (int step = 0; step < 3; ++step) {
      EXPECT_FALSE(is_there(model.head)) << step;
      const at::Tensor loss = shards.run([&] {
        EXPECT_TRUE(is_there(model.head));
        return model.loss(batch_of(step, 0, runtime));
      });
      EXPECT_LE(layers_there(model), 1) << "the last is kept";
      loss.backward();
      EXPECT_EQ(layers_there(model), 0);
      EXPECT_FALSE(is_there(model.head));
      for (const at::Tensor& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
      shards.step();
      EXPECT_THAT([&] { (model.head + 1.0).sum(); },
                  testing::ThrowsMessage<c10::Error>(HasSubstr("are gathered only while it runs")));
    }
    EXPECT_GE(most, 1);
    EXPECT_LE(most, 2);
  });
}

TEST(ShardedModel, TheNextUnitIsGatheredMeanwhile) {
  run_on_one_host(2, [](Runtime& runtime) {
    LayeredModel model(4);
    const ShardedModelOptions options{.units = model.units(), .share = false};
    const auto units = std::make_shared<UnitScheduler>(model, options, runtime);
    model.runner = UnitRunner(units);
    int unit = 0, ahead = 0;  // the root is unit 0
    auto is_coming = [&](int next) {
      const FlatParameter& coming = *units->units()[next];
      ahead += coming.gathering() || coming.present() ? 1 : 0;
    };
    model.on_layer = [&](const at::Tensor& hidden) {
      const int mine = ++unit;
      if (mine < 4) is_coming(mine + 1);
      hidden.register_hook([&, mine](const at::Tensor&) { is_coming(mine); });
    };
    for (int pass = 0; pass < 2; ++pass) {
      unit = ahead = 0;
      const at::Tensor loss = UnitCall(units, nullptr).run([&] { return model.loss(make_batch(0, 6)); });
      loss.backward();
      units->forget_gradients();
      EXPECT_EQ(ahead, pass == 0 ? 0 : 3 + 4) << pass;
    }
  });
}

TEST(ShardedModel, RunsWithoutGradientsBetweenSteps) {
  for (const bool share : {false, true}) {
    run_on_one_host(2, [&](Runtime& runtime) {
      LayeredModel model, reference;
      Model shards(model, {.units = model.units(), .share = share}, SGDOptions(0.1), runtime);
      model.runner = shards.runner();
      torch::optim::SGD plain(reference.parameters(), SGDOptions(0.1));
      const Batch batch = make_batch(0, 6);
      for (int step = 0; step < 3; ++step) {
        plain.zero_grad();
        reference.loss(batch).backward();
        plain.step();
        shards.zero_grad();
        shards.run([&] { return model.loss(batch); }).backward();
        shards.step();
        const at::NoGradGuard no_grad;
        const at::Tensor loss = shards.run([&] { return model.loss(batch); });
        EXPECT_LT(difference(loss, reference.loss(batch)), 1e-12);
        EXPECT_EQ(layers_there(model), share ? 3 : 0);
      }
    });
  }
}

TEST(ShardedModel, BackwardPassesNeedNotFollowTheirForwards) {
  run_on_one_host(2, [](Runtime& runtime) {
    LayeredModel model, reference;
    Model shards(model, {.units = model.units(), .backward_passes_per_step = 3, .share = false},
                 SGDOptions(0.3), runtime);
    model.runner = shards.runner();
    torch::optim::SGD plain(reference.parameters(), SGDOptions(0.1));
    const Batch one = make_batch(0, 6), other = make_batch(6, 6);
    for (int step = 0; step < 3; ++step) {
      auto passes = [&](const at::Tensor& first, const at::Tensor& second) {
        (first + second).backward({}, /*retain_graph=*/true);
        first.backward({}, true);
        second.backward();
      };
      plain.zero_grad();
      passes(reference.loss(one), reference.loss(other));
      plain.step();
      shards.zero_grad();
      passes(shards.run([&] { return model.loss(one); }), shards.run([&] { return model.loss(other); }));
      shards.step();
      const at::NoGradGuard no_grad;
      EXPECT_LT(difference(shards.run([&] { return model.loss(one); }), reference.loss(one)), 1e-12);
    }
  });
}

TEST(ShardedModel, FollowsASchedulerAndHasGroups) {
  run_on_one_host(2, [](Runtime& runtime) {
    LayeredModel model;
    const double still = model.layers[0]->weight.sum().item<double>();
    using Group = torch::optim::OptimizerParamGroup;
    std::vector<Group> groups;
    groups.emplace_back(std::vector{model.head}, std::make_unique<SGDOptions>(0.5));
    groups.emplace_back(model.layers[0]->parameters(), std::make_unique<SGDOptions>(0.0));
    Model shards(model, {.units = model.units(), .share = true}, groups, SGDOptions(7.0), runtime);
    torch::optim::StepLR schedule(shards, 1, 0.5);
    double moved = 0;
    for (int step = 0; step < 4; ++step) {
      shards.zero_grad();
      const double before = model.head.sum().item<double>();
      shards.run([&] { return model.head.sum() + model.layers[0]->weight.sum() * step; }).backward();
      shards.step();
      schedule.step();
      const double now = before - model.head.sum().item<double>();
      EXPECT_NEAR(now, step > 1 ? moved / 2 : 8, 1e-12) << step;
      moved = now;
    }
    EXPECT_EQ(model.layers[0]->weight.sum().item<double>(), still);
  });
}

TEST(ShardedModel, RanksThatRunDifferentUnitsAreTold) {
  run_on_one_host(2, [](Runtime& runtime) {
    LayeredModel model;
    Model shards(model, {.units = model.units(), .share = false}, SGDOptions(0.1), runtime);
    model.runner = shards.runner();
    model.skipped = runtime.topology().rank;  // its first layer is another
    EXPECT_THAT(words_of<Mismatch>([&] { shards.run([&] { return model.loss(make_batch(0, 6)); }); }),
                HasSubstr("the ranks run different units"));
    model.skipped = -1;
    shards.run([&] { return model.loss(make_batch(0, 6)); }).backward();
    shards.step();
    EXPECT_THAT(words_of<Mismatch>([&] {
                  if (runtime.topology().rank == 0) return shards.step();
                  return shards.run([&] { return model.loss(make_batch(0, 6)); });
                }),
                HasSubstr("different numbers of passes"));
  });
}

TEST(ShardedModel, WhatOnlySomeRanksRunIsFineWhereParametersAreShared) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Training training{.before = [&](LayeredModel& model, int step) {
      model.skipped = runtime.topology().rank == 1 ? step % 3 : -1;
    }};
    expect_same_losses<torch::optim::SGD>(training, SGDOptions(0.1), true, runtime);
  });
}

TEST(ShardedModel, RefusesWhatCannotBe) {
  run_on_one_host(2, [](Runtime& runtime) {
    const int rank = runtime.topology().rank;
    LayeredModel model;
    auto make = [&](std::vector<std::string> units) {
      Model(model, {.units = std::move(units)}, SGDOptions(0.1), runtime);
    };
    EXPECT_THAT(words_of<InvalidArgument>([&] { make({"layer7"}); }), HasSubstr("no submodule 'layer7'"));
    EXPECT_THAT(words_of<InvalidArgument>([&] { make({"layer0", "layer0"}); }), HasSubstr("given twice"));
    EXPECT_THAT(words_of<Mismatch>([&] { make({rank == 0 ? "layer0" : "layer1"}); }),
                HasSubstr("rank 0 has the unit 'layer0', rank 1 has the unit 'layer1'"));
    {
      LayeredModel mixed;
      mixed.layers[0]->bias.set_data(mixed.layers[0]->bias.detach().to(at::kFloat));
      EXPECT_THAT(
          words_of<InvalidArgument>([&] { Model(mixed, {.units = {"layer0"}}, SGDOptions(0.1), runtime); }),
          HasSubstr("the parameters of a unit have one type"));
    }
    EXPECT_THAT(
        words_of<InvalidArgument>([&] { Model(model, {.op = ReduceOp::max}, SGDOptions(0.1), runtime); }),
        HasSubstr("average or sum, not max"));
    Model shards(model, {.units = model.units(), .share = false}, SGDOptions(0.1), runtime);
    model.runner = shards.runner();
    const Batch batch = make_batch(0, 6);
    EXPECT_THAT(words_of<InvalidArgument>([&] { model.loss(batch); }), HasSubstr("outside of a pass"));
    const at::Tensor loss = shards.run([&] { return model.loss(batch); });
    loss.backward({}, true);
    EXPECT_THAT(words_of<InvalidArgument>([&] { loss.backward(); }),
                HasSubstr("after the last of its step (backward_passes_per_step is 1)"));
    const at::Tensor head = model.head.detach();
    if (rank == 1) model.head.set_data(at::ones({2, 8}, at::kDouble));
    EXPECT_THAT(words_of<InvalidArgument>([&] { shards.step(); }),
                HasSubstr(rank == 1 ? "parameter 'head' has moved" : "rank 1 refuses it"));
    model.head.set_data(head);
    shards.step();
  });
}

TEST(ShardedModel, AJoinedRankIsToldByName) {
  run_on_one_host(3, [](Runtime& runtime) {
    LayeredModel model;
    Model shards(model, {.units = model.units()}, SGDOptions(0.1), runtime);
    model.runner = shards.runner();
    if (runtime.topology().rank != 2) {
      EXPECT_THAT(words_of<Error>([&] {
                    shards.run([&] { return model.loss(make_batch(0, 6)); }).backward();
                    shards.step();
                  }),
                  HasSubstr("rank"));
    }
    join(runtime);
  });
}

}  // namespace
}  // namespace rueda
