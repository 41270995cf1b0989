// SPDX-License-Identifier: Apache-2.0
// ShardedOptimizer on ranks that are threads, against DistributedOptimizer: the same bits.
#include "rueda/torch/sharding/sharded_optimizer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <sstream>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/optimizers/radam.h"
#include "rueda/torch/state/parameters.h"
#include "tests/support/training/regression.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGDOptions;

// Parameters of which some are cut, some lie in one part, and one is of another type and memory order.
std::vector<at::Tensor> make_model(bool of_two_types = false) {
  std::vector<at::Tensor> model{make_parameter({70, 61}, 1, at::kFloat), make_parameter({61}, 2, at::kFloat),
                                make_parameter({5000}, 3, at::kFloat), make_parameter({}, 4, at::kFloat),
                                make_parameter({0, 3}, 5, at::kFloat)};
  if (of_two_types) {
    model.push_back(make_parameter({40, 31}, 6, at::kDouble));
    model.push_back(make_parameter({30, 50}, 7, at::kFloat).detach().t().requires_grad_(true));
  }
  return model;
}

// Gradients that differ by rank and step, and of some parameters are missing now and then.
void make_gradients(const std::vector<at::Tensor>& model, int seed) {
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (seed % 5 == 3 && i == 1) continue;
    const at::Tensor factors =
        make_parameter(model[i].sizes(), seed + static_cast<int>(i), model[i].scalar_type());
    (model[i] * factors.detach()).sum().backward();
  }
}

std::vector<OptimizerParamGroup> groups_of(const std::vector<at::Tensor>& model, const auto& options) {
  auto other = options;
  other.set_lr(options.get_lr() / 3);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector(model.begin(), model.begin() + 2),
                      std::make_unique<std::decay_t<decltype(options)>>(options));
  groups.emplace_back(std::vector(model.begin() + 2, model.end()),
                      std::make_unique<std::decay_t<decltype(options)>>(other));
  return groups;
}

template <class Optimizer, class Options>
std::vector<at::Tensor> trained(const std::vector<at::Tensor>& model, const Options& options,
                                Runtime& runtime) {
  DistributedOptions distributed;
  distributed.op = ReduceOp::sum;
  Optimizer optimizer(groups_of(model, options), options, distributed, runtime);
  for (int step = 0; step < 7; ++step) {
    optimizer.zero_grad(step % 2 == 0);
    make_gradients(model, step * 10 + runtime.topology().rank);
    optimizer.step();
  }
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : model) result.push_back(parameter.detach().clone());
  return result;
}

template <class Opt, class Options>
void expect_same_bits(Rank ranks, bool share, const Options& options, bool of_two_types = false) {
  Config config;
  if (!share) config.window_limit = 0;
  run_on_one_host(
      ranks,
      [&](Runtime& runtime) {
        const auto whole = trained<DistributedOptimizer<Opt>>(make_model(of_two_types), options, runtime);
        const auto parts = trained<ShardedOptimizer<Opt>>(make_model(of_two_types), options, runtime);
        for (std::size_t i = 0; i < whole.size(); ++i)
          EXPECT_TRUE(at::equal(whole[i], parts[i])) << "parameter " << i << ", " << ranks << " ranks";
      },
      config);
}

class ShardedBits : public testing::TestWithParam<std::tuple<Rank, bool>> {};

TEST_P(ShardedBits, AreThoseOfTheWhole) {
  const auto [ranks, share] = GetParam();
  expect_same_bits<FusedAdamW>(ranks, share, AdamWOptions(0.02));
  expect_same_bits<FusedAdamW>(ranks, share, AdamWOptions(0.02).amsgrad(true), true);
  expect_same_bits<torch::optim::AdamW>(ranks, share, AdamWOptions(0.02).weight_decay(0.1), true);
  expect_same_bits<torch::optim::Adam>(ranks, share, torch::optim::AdamOptions(0.02));
  expect_same_bits<torch::optim::SGD>(ranks, share, SGDOptions(0.1).momentum(0.9).nesterov(true), true);
  expect_same_bits<torch::optim::RMSprop>(ranks, share, torch::optim::RMSpropOptions(0.02).momentum(0.5));
  expect_same_bits<torch::optim::Adagrad>(ranks, share, torch::optim::AdagradOptions(0.02));
  expect_same_bits<RAdam>(ranks, share, RAdamOptions(0.05).betas({0.9, 0.8}).weight_decay(0.1), true);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardedBits, testing::Combine(testing::Values(1, 2, 3, 4), testing::Bool()));

TEST(FusedAdamW, IsAdamWButForRounding) {
  std::vector<std::vector<at::Tensor>> found;
  for (const bool fused : {true, false}) {
    const std::vector<at::Tensor> model = make_model();
    std::unique_ptr<torch::optim::AdamW> optimizer;
    const auto options = AdamWOptions(0.01).amsgrad(true).weight_decay(0.2);
    if (fused) {
      optimizer = std::make_unique<FusedAdamW>(model, options);
    } else {
      optimizer = std::make_unique<torch::optim::AdamW>(model, options);
    }
    for (int step = 0; step < 6; ++step) {
      optimizer->zero_grad();
      make_gradients(model, step);
      optimizer->step();
    }
    std::stringstream archive;
    torch::save(*optimizer, archive);
    torch::optim::AdamW loaded(model, options);
    torch::load(loaded, archive);
    found.push_back(model);
  }
  for (std::size_t i = 0; i < found[0].size(); ++i)
    EXPECT_LT(difference(found[0][i], found[1][i]), 1e-5) << i;
}

TEST(FusedAdamW, StridesAreMinded) {
  const at::Tensor whole = make_parameter({12, 20}, 1, at::kFloat);
  const at::Tensor parameter = whole.detach().clone().requires_grad_(true),
                   reference = whole.detach().clone().requires_grad_(true);
  FusedAdamW fused({parameter}, AdamWOptions(0.1));
  torch::optim::AdamW plain({reference}, AdamWOptions(0.1));
  for (int step = 0; step < 4; ++step) {
    const at::Tensor gradient = make_parameter({20, 12}, step, at::kFloat).detach().t();
    parameter.mutable_grad() = gradient;
    reference.mutable_grad() = gradient.contiguous();
    fused.step();
    plain.step();
  }
  EXPECT_LT(difference(parameter, reference), 1e-5);
  const at::Tensor part = whole.detach().narrow(1, 0, 5).requires_grad_(true);
  FusedAdamW refuses({part}, AdamWOptions(0.1));
  part.mutable_grad() = at::ones({12, 5});
  EXPECT_THAT([&] { refuses.step(); },
              testing::ThrowsMessage<c10::Error>(HasSubstr("is part of another tensor")));
}

using Adam = ShardedOptimizer<FusedAdamW>;

TEST(ShardedOptimizer, LeavesEachRankACopyOfItsOwn) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> model = make_model();
    {
      Adam optimizer(model, AdamWOptions(0.1), {}, runtime);
      make_gradients(model, 1);
      optimizer.step();
    }
    const at::Tensor before = model[0].detach().clone();
    barrier_async(runtime).wait();
    model[0].detach().fill_(runtime.topology().rank);
    barrier_async(runtime).wait();
    EXPECT_TRUE(at::equal(model[0], at::full({70, 61}, runtime.topology().rank, at::kFloat)));
    EXPECT_FALSE(at::equal(model[0], before));
  });
}

TEST(ShardedOptimizer, ItsArchiveContinuesIt) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> straight = make_model(), broken = make_model();
    auto steps = [&](Adam& optimizer, const std::vector<at::Tensor>& model, int from, int to) {
      for (int step = from; step < to; ++step) {
        optimizer.zero_grad();
        make_gradients(model, step + runtime.topology().rank);
        optimizer.step();
      }
    };
    Adam reference(straight, AdamWOptions(0.1), {}, runtime);
    steps(reference, straight, 0, 5);
    std::stringstream archive;
    {
      Adam optimizer(broken, AdamWOptions(0.1), {}, runtime);
      steps(optimizer, broken, 0, 3);
      torch::save(optimizer, archive);
    }
    Adam optimizer(broken, AdamWOptions(7.0), {}, runtime);
    torch::load(optimizer, archive);
    steps(optimizer, broken, 3, 5);
    for (std::size_t i = 0; i < straight.size(); ++i) EXPECT_TRUE(at::equal(straight[i], broken[i])) << i;
  });
}

TEST(ShardedOptimizer, FollowsAScheduler) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({3000}, 1);
    ShardedOptimizer<torch::optim::SGD> optimizer({parameter}, SGDOptions(1.0), {}, runtime);
    torch::optim::StepLR schedule(optimizer, 1, 0.5);
    double moved = 0;
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const double before = parameter.sum().item<double>();
      parameter.sum().backward();
      optimizer.step();
      schedule.step();
      const double now = before - parameter.sum().item<double>();
      if (step > 1) {
        EXPECT_NEAR(now, moved / 2, 1e-6);
      }
      moved = now;
    }
  });
}

TEST(ShardedOptimizer, RefusesWhatCannotBe) {
  run_on_one_host(2, [](Runtime& runtime) {
    std::vector<at::Tensor> model = make_model();
    Adam optimizer(model, AdamWOptions(0.1), {}, runtime);
    EXPECT_THAT(words_of([&] { broadcast_optimizer_state(optimizer, 0, runtime); }),
                HasSubstr("has a part of its own"));
    std::stringstream plain;
    torch::optim::SGD other(make_model(), SGDOptions(0.1));
    torch::save(other, plain);
    EXPECT_THAT(words_of([&] { torch::load(optimizer, plain); }), HasSubstr("not of a ShardedOptimizer"));
    model[2].set_data(model[2].detach().clone());
    EXPECT_THAT(words_of([&] { optimizer.step(); }), HasSubstr("parameter.2 has moved to other memory"));
    const at::Tensor tied = make_parameter({6, 6}, 1), same = make_parameter({6, 6}, 1);
    same.set_data(tied.detach());
    EXPECT_THAT(words_of([&] {
                  Adam bad({tied, same}, AdamWOptions(0.1), {}, runtime);
                }),
                HasSubstr("parameter.0 and parameter.1 have one memory"));
    const at::Tensor rows = make_parameter({6, 6}, 1).detach().narrow(0, 0, 2);
    EXPECT_THAT(words_of([&] { Adam bad({rows}, AdamWOptions(0.1), {}, runtime); }),
                HasSubstr("takes whole ones"));
    const at::Tensor narrow = make_parameter({6, 6}, 1).detach().narrow(1, 0, 2);
    EXPECT_THAT(words_of([&] { Adam bad({narrow}, AdamWOptions(0.1), {}, runtime); }),
                HasSubstr("takes whole ones"));
  });
}

TEST(ShardedOptimizer, WhatOneRankRefusesNobodySteps) {
  run_on_one_host(2, [](Runtime& runtime) {
    std::vector<at::Tensor> model = make_model();
    Adam optimizer(model, AdamWOptions(0.1), {}, runtime);
    make_gradients(model, 1);
    const at::Tensor before = model[0].detach().clone();
    const at::Tensor block = model[2].detach();
    const bool mine = runtime.topology().rank == 1;
    if (mine) model[2].set_data(model[2].detach().clone());
    EXPECT_THAT(words_of([&] { optimizer.step(); }),
                HasSubstr(mine ? "parameter.2 has moved to other memory" : "no step, for rank 1 refuses it"));
    EXPECT_TRUE(at::equal(model[0], before));
    if (mine) model[2].set_data(block);
    make_gradients(model, 2);
    optimizer.step();
  });
}

TEST(ShardedOptimizer, ThePartOfAnotherRankIsNotLoaded) {
  std::vector<std::string> saved(2);
  std::vector<std::string> words(2);
  run_on_one_host(2, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const std::vector<at::Tensor> model = make_model();
    Adam optimizer(model, AdamWOptions(0.1), {}, runtime);
    make_gradients(model, 1);
    optimizer.step();
    std::stringstream archive;
    torch::save(optimizer, archive);
    saved[rank] = archive.str();
    barrier_async(runtime).wait();
    std::stringstream others(saved[1 - rank]);
    words[rank] = words_of([&] { torch::load(optimizer, others); });
  });
  EXPECT_THAT(words[0], HasSubstr("the part of rank 1 of 2, of 9332 elements, and this is rank 0 of 2"));
  EXPECT_THAT(words[1], HasSubstr("the part of rank 0 of 2"));
}

TEST(ShardedOptimizer, AJoinedRankIsToldByName) {
  run_on_one_host(3, [](Runtime& runtime) {
    const std::vector<at::Tensor> model = make_model();
    Adam optimizer(model, AdamWOptions(0.1), {}, runtime);
    make_gradients(model, 1);
    optimizer.step();
    if (runtime.topology().rank == 2) {
      join(runtime);
      return;
    }
    const at::Tensor before = model[0].detach().clone();
    try {
      optimizer.step();
      ADD_FAILURE() << "stepped without rank 2";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 2"));
    }
    EXPECT_TRUE(at::equal(before, model[0]));
    join(runtime);
  });
}

// An error of one rank's part is thrown there, and the others do not wait for ever.
class Picky : public torch::optim::SGD {
 public:
  using SGD::SGD;
  static thread_local bool fails;
  at::Tensor step(LossClosure closure = nullptr) override {
    if (fails) throw std::runtime_error("out of timeout");
    return SGD::step(std::move(closure));
  }
};
thread_local bool Picky::fails = false;

}  // namespace

template <>
inline constexpr bool is_elementwise<Picky> = true;

namespace {

TEST(ShardedOptimizer, AnErrorInsideAStepIsThrownAndTheNextStepWorks) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> model = make_model();
    ShardedOptimizer<Picky> optimizer(model, SGDOptions(0.1), {}, runtime);
    make_gradients(model, 1);
    Picky::fails = runtime.topology().rank == 1;
    try {
      optimizer.step();
      ADD_FAILURE() << "a step without rank 1's part";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr(Picky::fails ? "out of timeout" : "step() failed on rank 1"));
    }
    Picky::fails = false;
    make_gradients(model, 2);
    optimizer.step();
  });
}

}  // namespace
}  // namespace rueda
