// SPDX-License-Identifier: Apache-2.0
// OrderedTraining whose bits do not depend on how many ranks share the work.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/buffers/pairwise_sum.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Sgd = DistributedOptimizer<torch::optim::SGD>;

torch::optim::SGDOptions sgd_options(std::int64_t hidden = 8) {
  return torch::optim::SGDOptions(0.4 / static_cast<double>(hidden)).momentum(0.9);
}

DistributedOptions fixed(int passes, bool overlap = true) {
  DistributedOptions options;
  options.backward_passes_per_step = passes;
  options.reduction_order = ReductionOrder::fixed;
  options.overlap = overlap;
  return options;
}

// How 20 steps are done.
struct OrderedTraining {
  Rank ranks = 1;
  int shards = 4;
  bool one_host = false;
  bool set_to_none = true;
  bool overlap = true;
  bool by_setting = false;
  at::ScalarType type = at::kFloat;
  ReductionOrder order = ReductionOrder::fixed;
  std::int64_t hidden = 8;
};

// The parameters of all ranks afterwards. Every step has a batch of 4 rows for each shard; that of shard 2 is
// of no use to one parameter, and one that only shard 1 uses is there beside the model.
template <class Optimizer = Sgd>
std::vector<at::Tensor> trained(const OrderedTraining& how) {
  std::vector<at::Tensor> result;
  std::mutex mutex;
  auto body = [&](Runtime& runtime) {
    const int passes = how.shards / how.ranks;
    const Regression model(1, how.type, how.hidden);
    const at::Tensor table = make_parameter({5, 2}, 7, how.type), rare = make_parameter({3}, 8, how.type);
    std::vector<at::Tensor> parameters = model.tensors();
    parameters.insert(parameters.end(), {table, rare});
    DistributedOptions options = fixed(passes, how.overlap);
    options.reduction_order = how.by_setting ? ReductionOrder::any : how.order;
    Optimizer optimizer(parameters, sgd_options(how.hidden), options, runtime);
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad(how.set_to_none);
      for (int pass = 0; pass < passes; ++pass) {
        const int shard = runtime.topology().rank * passes + pass;
        at::Tensor loss = model.loss(make_batch((step * how.shards + shard) * 4, 4, how.type)) * 3.1;
        const at::Tensor rows = at::embedding(table, at::tensor({shard % 5, step % 5}), -1, false, true);
        if (shard != 2) loss = loss + (rows * 0.7).sin().sum();
        if (shard == 1) loss = loss + (rare * rare * 0.3).sum();
        loss.backward();
      }
      optimizer.step();
    }
    std::lock_guard lock(mutex);
    for (const at::Tensor& parameter : parameters) result.push_back(parameter.detach().clone());
  };
  Config config;
  if (how.by_setting) config.reduction_order = how.order;
  how.one_host ? run_on_one_host(how.ranks, body, config) : run_ranks(how.ranks, body, config);
  return result;
}

// All ranks have the bits of the first.
int differences(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  int count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) count += at::equal(found[i], expected[i % 6]) ? 0 : 1;
  return count;
}

class Shards : public testing::TestWithParam<std::tuple<int, bool, at::ScalarType>> {
 protected:
  OrderedTraining how(Rank ranks) const {
    const auto& [shards, one_host, type] = GetParam();
    OrderedTraining how{.ranks = ranks, .shards = shards, .one_host = one_host, .type = type};
    if (one_host) how.hidden = Regression::kTooLargeForOneShots;
    return how;
  }
};

TEST_P(Shards, GivesTheSameBitsOnAnyNumberOfRanks) {
  const std::vector<at::Tensor> expected = trained(how(1));
  EXPECT_TRUE(at::isfinite(expected[0]).all().item<bool>());
  for (const Rank ranks : {2, 4, 8}) {
    if (ranks > how(1).shards) continue;
    EXPECT_EQ(differences(trained(how(ranks)), expected), 0) << ranks;
  }
}

TEST_P(Shards, AnotherOrderGivesOtherBits) {
  OrderedTraining any = how(1);
  any.order = ReductionOrder::any;
  EXPECT_GT(differences(trained(any), trained(how(1))), 0);
}

INSTANTIATE_TEST_SUITE_P(FixedOrder, Shards,
                         testing::Combine(testing::Values(4, 8), testing::Bool(),
                                          testing::Values(at::kFloat, at::kBFloat16)));

TEST(FixedOrder, HoweverGradientsAreZeroedAndSubmitted) {
  const std::vector<at::Tensor> expected = trained({});
  for (const Rank ranks : {1, 2, 4}) {
    EXPECT_EQ(differences(trained({.ranks = ranks, .one_host = true, .set_to_none = false}), expected), 0);
    EXPECT_EQ(differences(trained({.ranks = ranks, .overlap = false}), expected), 0);
    EXPECT_EQ(differences(trained({.ranks = ranks, .one_host = true, .by_setting = true}), expected), 0);
  }
}

TEST(FixedOrder, OfAShardedOptimizer) {
  constexpr std::int64_t kHidden = Regression::kTooLargeForOneShots;
  const std::vector<at::Tensor> expected = trained({.hidden = kHidden});
  for (const Rank ranks : {1, 2, 4}) {
    const auto found =
        trained<ShardedOptimizer<torch::optim::SGD>>({.ranks = ranks, .one_host = true, .hidden = kHidden});
    EXPECT_EQ(differences(found, expected), 0) << ranks;
  }
}

TEST(FixedOrder, GradientsHaveBlocksInTheWindow) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    run_on_one_host(2, [&](Runtime& runtime) {
      const Regression model(1, type);
      Sgd optimizer(model.tensors(), sgd_options(), fixed(2), runtime);
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        for (int pass = 0; pass < 2; ++pass) {
          EXPECT_FALSE(model[0].grad().defined());
          model.loss(make_batch(4 * pass, 4, type)).backward();
        }
        optimizer.step();
        for (const at::Tensor& parameter : model.tensors()) {
          EXPECT_EQ(parameter.grad().scalar_type(), type);
          const bool there =
              runtime.tensor_memory()->contains(parameter.grad().const_data_ptr(), parameter.grad().nbytes());
          if (step > 1) {  // 16-bit ones are sums in float32
            EXPECT_EQ(there, type == at::kFloat);
          }
        }
      }
    });
  }
}

TEST(FixedOrder, RefusesNumbersThatAreNoPowersOfTwo) {
  run_on_one_host(3, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    EXPECT_THAT([&] { GradientReducer reducer({weight}, fixed(1), runtime); },
                ThrowsMessage<InvalidArgument>(
                    AllOf(HasSubstr("power of two of ranks, and there are 3; make them 2 or 4"),
                          HasSubstr("RUEDA_REDUCTION_ORDER"))));
    EXPECT_THAT([&] { GradientReducer reducer({weight}, fixed(6), runtime); },
                ThrowsMessage<InvalidArgument>(
                    HasSubstr("backward passes per step, and there are 6; make them 4 or 8")));
    GradientReducer works({weight}, {}, runtime);
  });
  Config config;
  config.reduction_order = ReductionOrder::fixed;
  run_ranks(
      3,
      [](Runtime& runtime) {
        const at::Tensor weight = make_parameter({3}, 1);
        EXPECT_THROW(GradientReducer({weight}, {}, runtime), InvalidArgument);
      },
      config);
}

TEST(FixedOrder, MustBeTheSameOnAllRanks) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    DistributedOptions options;
    if (runtime.topology().rank == 1) options = fixed(1);
    EXPECT_THAT(
        [&] { GradientReducer reducer({weight}, options, runtime); },
        ThrowsMessage<Mismatch>(AllOf(HasSubstr("reduction_order any"), HasSubstr("reduction_order fixed"))));
  });
}

at::Tensor constant(double value) { return at::full({3}, value, at::kDouble); }

TEST(FixedOrder, AnEarlyStepAveragesOverThePassesDone) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    GradientReducer reducer({weight}, fixed(4), runtime);
    for (int pass = 0; pass < 2 + runtime.topology().rank; ++pass) (weight * 5).sum().backward();
    reducer.before_step();
    EXPECT_LT(difference(weight.grad(), constant(5)), 1e-12);
  });
}

TEST(FixedOrder, LocalStepsHaveTheSumOfTheirPasses) {
  run_on_one_host(2, [](Runtime& runtime) {
    const double scale = 1.0 + runtime.topology().rank;
    const at::Tensor weight = make_parameter({3}, 1), once = make_parameter({3}, 2, at::kBFloat16);
    GradientReducer reducer({weight, once}, fixed(4, false), runtime);
    for (int pass = 0; pass < 4; ++pass) {
      at::Tensor loss = (weight * scale).sum();
      if (pass == 1) loss = loss + (once * scale).sum();
      loss.backward();
    }
    const auto skip = reducer.skip_synchronize();
    EXPECT_EQ(difference(weight.grad(), constant(4 * scale)), 0.0);
    EXPECT_EQ(difference(once.grad(), constant(scale)), 0.0);
    EXPECT_EQ(once.grad().scalar_type(), at::kBFloat16);
    reducer.before_step();
    reducer.before_zero_grad();
    weight.mutable_grad().reset();
    (weight * scale).sum().backward();
    reducer.before_step();
    EXPECT_EQ(difference(weight.grad(), constant(scale)), 0.0);
  });
}

TEST(FixedOrder, ZeroGradForgetsThePassesBefore) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    Sgd optimizer({weight}, torch::optim::SGDOptions(0.0), fixed(2), runtime);
    (weight * 100).sum().backward();
    optimizer.zero_grad();
    for (int pass = 0; pass < 2; ++pass) (weight * 3).sum().backward();
    optimizer.step();
    EXPECT_EQ(difference(weight.grad(), constant(3)), 0.0);
  });
}

TEST(FixedOrder, AGradientPutThereByHandCounts) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1), other = make_parameter({3}, 2);
    GradientReducer reducer({weight, other}, fixed(2, false), runtime);
    for (int pass = 0; pass < 2; ++pass) (weight * 3).sum().backward();
    for (const at::Tensor& parameter : {weight, other}) parameter.mutable_grad() = constant(8);
    reducer.before_step();
    EXPECT_EQ(difference(weight.grad(), constant(7)), 0.0);
    EXPECT_EQ(difference(other.grad(), constant(4)), 0.0);
  });
}

// The second pass begins while the first is under way.
TEST(FixedOrder, PassesAtTheSameTimeAreRefused) {
  run_ranks(1, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1), inner = make_parameter({3}, 2);
    GradientReducer reducer({weight, inner}, fixed(2), runtime);
    const at::Tensor middle = weight * 2;
    middle.register_hook([&](const at::Tensor&) {
      const at::AutoGradMode gradients_on(true);
      (inner * 3).sum().backward();
    });
    const at::Tensor first = middle.sum(), last = (inner * 5).sum();  // autograd goes back from the last
    const auto both = [&] { (first + last).backward(); };
    EXPECT_THAT(both, ThrowsMessage<InvalidArgument>(
                          AllOf(HasSubstr("while another backward pass runs"), HasSubstr("zero_grad()"))));
    reducer.before_zero_grad();
    for (const at::Tensor& parameter : {weight, inner}) parameter.mutable_grad().reset();
    for (int pass = 0; pass < 2; ++pass) (weight * 3).sum().backward();
    reducer.before_step();
    EXPECT_EQ(difference(weight.grad(), constant(3)), 0.0);
  });
}

TEST(PairwiseSum, AddsAsATree) {
  const at::Tensor one = at::tensor({1.0F});
  PairwiseSum sum;
  EXPECT_FALSE(sum.take(4).defined());
  for (int pass = 0; pass < 4; ++pass) sum.add(pass, pass == 0 ? one.clone() : at::full({1}, 5e-8F));
  EXPECT_EQ(sum.take(4).item<float>(), (1.0F + 5e-8F) + (5e-8F + 5e-8F));
  EXPECT_NE(1.0F + 5e-8F + 5e-8F + 5e-8F, (1.0F + 5e-8F) + (5e-8F + 5e-8F));
  EXPECT_EQ(sum.passes(), 0);
  sum.add(2, at::tensor({-0.0F}));  // with zeros on both sides
  EXPECT_FALSE(std::signbit(sum.take(4).item<float>()));
  sum.add(0, at::ones({1}, at::kBFloat16));
  sum.add(1, at::full({1}, 1.0 / 512, at::kBFloat16));
  EXPECT_EQ(sum.take(2).item<float>(), 1.0F + 1.0F / 512);  // more digits than bfloat16 has
}

}  // namespace
}  // namespace rueda
