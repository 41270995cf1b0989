// SPDX-License-Identifier: Apache-2.0
// Each optimizer: 2 ranks with a batch of b train as 1 rank with a batch of 2b.
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "core/engine/runtime.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/optimizers/lamb.h"
#include "rueda/torch/optimizers/lars.h"
#include "rueda/torch/optimizers/radam.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

namespace optim = torch::optim;

constexpr int kRowsEach = 6, kStepsEach = 10;

template <class Opt>
void step(Opt& optimizer, const Regression& model, std::int64_t first, std::int64_t rows) {
  optimizer.zero_grad();
  model.loss(make_batch(first, rows)).backward();
  optimizer.step();
}

// The parameters after kStepsEach of `Wrapped` on each of two ranks.
template <class Wrapped, class Options>
std::vector<Regression> on_two_ranks(const Options& options) {
  std::vector<Regression> models(2);
  run_on_one_host(2, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    Regression own;
    {
      Wrapped optimizer(own.tensors(), options, {.named_parameters = own.named}, runtime);
      for (int i = 0; i < kStepsEach; ++i) step(optimizer, own, kRowsEach * (2 * i + rank), kRowsEach);
    }
    models[static_cast<std::size_t>(rank)] = own;
  });
  return models;
}

template <class Opt, class Options>
void expect_equivalence(const Options& options) {
  Regression whole;
  Opt optimizer(whole.tensors(), options);
  for (int i = 0; i < kStepsEach; ++i) step(optimizer, whole, 2 * kRowsEach * i, 2 * kRowsEach);
  const std::vector<Regression> models = on_two_ranks<DistributedOptimizer<Opt>>(options);
  for (const Regression& model : models) {
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_LT(difference(model[i], whole[i]), 1e-9) << whole.named[i].first;
      EXPECT_GT(difference(model[i], Regression()[i]), 1e-3) << whole.named[i].first << " has not moved";
      EXPECT_TRUE(at::equal(model[i], models[0][i])) << whole.named[i].first;
    }
  }
  if constexpr (is_elementwise<Opt>) {
    for (const Regression& model : on_two_ranks<ShardedOptimizer<Opt>>(options)) {
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_TRUE(at::equal(model[i], models[0][i])) << "sharded, " << whole.named[i].first;
    }
  }
}

TEST(Equivalence, Sgd) {
  expect_equivalence<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
}
TEST(Equivalence, Adam) { expect_equivalence<optim::Adam>(optim::AdamOptions(0.01).weight_decay(0.01)); }
TEST(Equivalence, AdamW) { expect_equivalence<optim::AdamW>(optim::AdamWOptions(0.01).amsgrad(true)); }
TEST(Equivalence, FusedAdamW) { expect_equivalence<FusedAdamW>(optim::AdamWOptions(0.01)); }
TEST(Equivalence, RmsProp) {
  expect_equivalence<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
}
TEST(Equivalence, Adagrad) { expect_equivalence<optim::Adagrad>(optim::AdagradOptions(0.1)); }
TEST(Equivalence, RAdam) {
  static_assert(is_elementwise<RAdam>);
  expect_equivalence<RAdam>(RAdamOptions(0.05).betas({0.9, 0.9}).weight_decay(0.01));
}
TEST(Equivalence, Lamb) {
  static_assert(!is_elementwise<Lamb>);
  expect_equivalence<Lamb>(LambOptions(0.05));
}
TEST(Equivalence, Lars) { expect_equivalence<Lars>(LarsOptions(1.0).trust_coefficient(0.05)); }

}  // namespace
}  // namespace rueda
