// SPDX-License-Identifier: Apache-2.0
// Gradients that travel as two factors: what they become, and what is left for later.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/low_rank.h"

namespace rueda {
namespace {

TEST(LowRank, GradientsOfLowRankAreExact) {
  for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
    in_both_worlds(3, [&](Runtime& runtime) {
      const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1);
      DistributedOptions options = at_rank(4);
      options.op = op;
      GradientReducer reducer({weight}, options, runtime);
      at::Tensor sum = at::zeros({kMatrixRows, kMatrixColumns}, at::kDouble);
      for (Rank rank = 0; rank < 3; ++rank) sum += thin_matrix(4, 20, 30 + rank);
      const at::Tensor exact = op == ReduceOp::sum ? sum : sum / 3;
      for (int step = 0; step < 3; ++step) {
        reduce_by(reducer, weight, thin_matrix(4, 20, 30 + runtime.topology().rank));
        EXPECT_LT(difference(weight.grad(), exact), 1e-11) << to_string(op) << ", step " << step;
      }
    });
  }
}

// Steps, predivision and passes multiply what is reduced; what is left out is of the same kind. So the sums
// over steps differ from the exact ones by what is left, which does not grow.
TEST(LowRank, SumsOverStepsComeNearTheExactOnes) {
  for (const int variant : {0, 1, 2}) {
    in_both_worlds(2, [&](Runtime& runtime) {
      const Rank rank = runtime.topology().rank;
      const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1);
      DistributedOptions options = at_rank(3);
      if (variant == 1) options.op = ReduceOp::sum;
      if (variant == 2) options.gradient_predivide_factor = 4.0;
      GradientReducer reducer({weight}, options, runtime);
      const double scale = variant == 1 ? 1.0 : 0.5;
      const at::Tensor mine = matrix_of(5 + rank), exact = (matrix_of(5) + matrix_of(6)) * scale;
      at::Tensor sum = at::zeros_like(exact);
      std::vector<double> distances;
      for (int step = 1; step <= 60; ++step) {
        reduce_by(reducer, weight, mine);
        sum += weight.grad();
        distances.push_back((sum / step - exact).norm().item<double>() / exact.norm().item<double>());
      }
      EXPECT_GT(distances.front(), 0.3) << "it is no matrix of rank 3";
      EXPECT_LT(distances.back(), 0.25 * distances.front()) << variant;
      EXPECT_LT(distances.back(), 0.6 * distances[29]) << "as one over steps";
    });
  }
}

// What all ranks have left out is all that the result lacks: a reducer that then gets nothing but zeros gives
// it out.
TEST(LowRank, WhatIsLeftOutIsAddedLater) {
  run_ranks(3, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1);
    GradientReducer reducer({weight}, at_rank(4), runtime);
    at::Tensor exact = at::zeros({kMatrixRows, kMatrixColumns}, at::kDouble), sum = exact.clone();
    for (int seed = 0; seed < 3; ++seed) exact += matrix_of(5 + seed) / 3;
    reduce_by(reducer, weight, matrix_of(5 + runtime.topology().rank));
    sum += weight.grad();
    const double first = difference(sum, exact);
    for (int step = 0; step < 25; ++step) {
      reduce_by(reducer, weight, at::zeros({kMatrixRows, kMatrixColumns}, at::kDouble));
      sum += weight.grad();
    }
    EXPECT_GT(first, 0.1);
    EXPECT_LT(difference(sum, exact), 1e-9);
  });
}

// Factors travel, and nothing else; of what would not pay, the whole.
TEST(LowRank, TravelsInFewBytes) {
  MemoryNetwork network(2);
  std::uint64_t before = 0;
  std::mutex mutex;
  run_ranks_on(network, 2, [&](Runtime& runtime) {
    const at::Tensor weight = make_parameter({200, 100}, 1, at::kFloat);
    GradientReducer reducer({weight}, at_rank(2), runtime);
    barrier(runtime);
    {
      const std::lock_guard lock(mutex);
      if (before == 0) before = network.moved_bytes();
    }
    barrier(runtime);
    reduce_by(reducer, weight, matrix_of(2, {200, 100}, at::kFloat));
  });
  constexpr std::uint64_t kOthers = 200;  // presence
  constexpr std::uint64_t kFactors = 2 * 2 * (200 + 100) * 4 / 2 * 2;
  const std::uint64_t moved = network.moved_bytes() - before;
  EXPECT_GE(moved, kFactors / 2);
  EXPECT_LT(moved, kFactors + kOthers);
  EXPECT_LT(kFactors + kOthers, 200U * 100 * 4 / 2);
}

TEST(LowRank, OnlyWhatItPaysForTravelsSo) {
  in_both_worlds(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> all{make_parameter({40, 5, 6}, 1),
                                      make_parameter({40, 30}, 2),
                                      make_parameter({40, 4}, 3),
                                      make_parameter({1000}, 4),
                                      make_parameter({40, 30}, 5, at::kBFloat16),
                                      make_parameter({30, 40}, 6).detach().t().requires_grad_()};
    DistributedOptions options = at_rank(2);
    options.low_rank.without = {all[1]};
    GradientReducer reducer(all, options, runtime);
    at::Tensor loss = at::zeros({}, at::kDouble);
    const auto gradient = [&](std::size_t i, Rank rank) {
      return matrix_of(10 + static_cast<int>(i) + 20 * rank, all[i].sizes(), all[i].scalar_type());
    };
    for (std::size_t i = 0; i < all.size(); ++i)
      loss = loss + (all[i] * gradient(i, runtime.topology().rank)).sum();
    loss.backward();
    reducer.synchronize();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const at::Tensor exact = (gradient(i, 0) + gradient(i, 1)) / 2;
      const double rounding = all[i].scalar_type() == at::kBFloat16 ? 0.02 : 1e-12;
      EXPECT_EQ(difference(all[i].grad(), exact) > rounding, i == 0 || i == 5) << i;
      EXPECT_EQ(all[i].grad().strides(), all[i].strides()) << i;
    }
  });
}

TEST(LowRank, AllRanksHaveTheSameBits) {
  for (const Compression compression : {Compression::none, Compression::fp16}) {
    const auto body = [&](std::vector<at::Tensor>& results, std::mutex& mutex, Runtime& runtime) {
      const Rank rank = runtime.topology().rank;
      const at::Tensor weight = make_parameter({65, 1100}, 1, at::kFloat);
      DistributedOptions options = at_rank(3);
      options.compression = compression;
      GradientReducer reducer({weight}, options, runtime);
      for (int step = 0; step < 5; ++step)
        reduce_by(reducer, weight, matrix_of(5 + 7 * step + rank, {65, 1100}, at::kFloat));
      const std::lock_guard lock(mutex);
      results.push_back(weight.grad().clone());
    };
    for (const bool one_host : {false, true}) {
      std::vector<at::Tensor> results;
      std::mutex mutex;
      const auto of_rank = [&](Runtime& runtime) { body(results, mutex, runtime); };
      one_host ? run_on_one_host(4, of_rank) : run_ranks(4, of_rank);
      ASSERT_EQ(results.size(), 4U);
      EXPECT_GT(results[0].norm().item<double>(), 1.0);
      for (const at::Tensor& each : results) EXPECT_TRUE(at::equal(each, results[0]));
    }
  }
}

// A rank without a gradient counts as zeros, and gives out what it has left; where nobody has one, none
// comes.
TEST(LowRank, RanksWithoutAGradientTakePart) {
  in_both_worlds(3, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1),
                     other = make_parameter({kMatrixRows, kMatrixColumns}, 2);
    GradientReducer reducer({weight, other}, at_rank(4), runtime);
    (rank == 1 ? (weight * thin_matrix(4, 20, 30)).sum() : (make_parameter({3}, 1)).sum()).backward();
    reducer.synchronize();
    EXPECT_LT(difference(weight.grad(), thin_matrix(4, 20, 30) / 3), 1e-11);
    EXPECT_FALSE(other.grad().defined());
  });
}

TEST(LowRank, PassesAddUp) {
  in_both_worlds(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    for (const bool accumulate : {false, true}) {
      const at::Tensor weight = at::zeros({kMatrixRows, kMatrixColumns}, at::kDouble).requires_grad_();
      DistributedOptions options = at_rank(4);
      accumulate ? void(options.schedule = SyncSchedule::accumulate(2))
                 : void(options.backward_passes_per_step = 2);
      DistributedOptimizer<torch::optim::SGD> optimizer(std::vector{weight}, torch::optim::SGDOptions(1.0),
                                                        options, runtime);
      for (int pass = 0; pass < 4; ++pass) {
        if (accumulate || pass % 2 == 0) optimizer.zero_grad();
        (weight * thin_matrix(4, 20, 30 + 2 * (pass % 2) + rank)).sum().backward();
        if (accumulate || pass % 2 == 1) optimizer.step();
      }
      at::Tensor exact = at::zeros({kMatrixRows, kMatrixColumns}, at::kDouble);
      for (int own = 30; own < 34; ++own) exact -= thin_matrix(4, 20, own) / 2;
      EXPECT_LT(difference(weight, exact), 1e-10) << accumulate;
    }
  });
}

TEST(LowRank, TheNormIsOfTheResult) {
  in_both_worlds(3, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({32, 48}, 1, at::kFloat),
                     bias = make_parameter({7}, 2, at::kFloat);
    DistributedOptions options = at_rank(2);
    options.measure_norm = true;
    GradientReducer reducer({weight, bias}, options, runtime);
    ((weight * matrix_of(5 + runtime.topology().rank, {32, 48}, at::kFloat)).sum() + bias.sum()).backward();
    const double norm = reducer.grad_norm();
    EXPECT_NEAR(norm / std::sqrt(weight.grad().square().sum().item<double>() + 7.0), 1.0, 1e-5);
    EXPECT_GT(norm, 3.0);
  });
}

// A scaler sees that on all ranks, and leaves the step out; nothing of it stays.
TEST(LowRank, WhatIsNotFiniteIsToldAndForgotten) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    run_ranks(2, [&](Runtime& runtime) {
      const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1),
                       same = make_parameter({kMatrixRows, kMatrixColumns}, 1);
      GradientReducer reducer({weight}, at_rank(2), runtime), undisturbed({same}, at_rank(2), runtime);
      const at::Tensor mine = matrix_of(5 + runtime.topology().rank);
      at::Tensor sum = at::zeros_like(mine), without = at::zeros_like(mine);
      for (int step = 0; step < 60; ++step) {
        if (step == 3) {
          at::Tensor spoilt = mine.clone();
          if (runtime.topology().rank == 1) spoilt[2][3] = bad;
          reduce_by(reducer, weight, spoilt);
          EXPECT_FALSE(at::isfinite(weight.grad()).any().item<bool>());
        }
        reduce_by(reducer, weight, mine);
        reduce_by(undisturbed, same, mine);
        sum += weight.grad();
        without += same.grad();
      }
      const at::Tensor exact = (matrix_of(5) + matrix_of(6)) / 2;
      EXPECT_LT((sum / 60 - exact).norm().item<double>(), 1.2 * (without / 60 - exact).norm().item<double>());
    });
  }
}

// A perceptron of two layers, trained on batches of each rank's own; the loss on rows of neither.
double loss_after_training(Runtime& runtime, const DistributedOptions& options) {
  const auto layer = [](at::IntArrayRef sizes, int seed) {
    return (matrix_of(seed, sizes, at::kFloat) * 0.3).requires_grad_();
  };
  const std::vector<at::Tensor> layers{layer({32, 24}, 1), layer({32}, 2), layer({24, 32}, 3)};
  const at::Tensor truth = matrix_of(9, {24, 24}, at::kFloat) * 0.3;
  const auto loss = [&](int first) {
    const at::Tensor inputs = matrix_of(first, {16, 24}, at::kFloat);
    const at::Tensor hidden = at::linear(inputs, layers[0], layers[1]).tanh();
    return at::mse_loss(at::linear(hidden, layers[2]), at::mm(inputs, truth).tanh());
  };
  DistributedOptimizer<torch::optim::SGD> optimizer(layers, torch::optim::SGDOptions(0.1).momentum(0.9),
                                                    options, runtime);
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    loss(100 + 2 * step + runtime.topology().rank).backward();
    optimizer.step();
  }
  const at::NoGradGuard no_grad;
  double sum = 0.0;
  for (int first = 50; first < 60; ++first) sum += loss(first).item<double>() / 10;
  return sum;
}

TEST(LowRank, TrainsNearlyAsTheWholeDoes) {
  run_ranks(2, [](Runtime& runtime) {
    const double whole = loss_after_training(runtime, {}),
                 compressed = loss_after_training(runtime, at_rank(2));
    EXPECT_LT(compressed, 1.1 * whole);
    EXPECT_LT(whole, 0.05);
  });
}

TEST(LowRank, ShardedStepsAreTheSame) {
  for (const bool one_host : {false, true}) {
    const auto body = [](Runtime& runtime) {
      const at::Tensor plain = make_parameter({kMatrixRows, kMatrixColumns}, 1),
                       sharded = make_parameter({kMatrixRows, kMatrixColumns}, 1);
      const torch::optim::SGDOptions sgd(0.1);
      DistributedOptimizer<torch::optim::SGD> one(std::vector{plain}, sgd, at_rank(3), runtime);
      ShardedOptimizer<torch::optim::SGD> other(std::vector{sharded}, sgd, at_rank(3), runtime);
      for (int step = 0; step < 3; ++step) {
        const at::Tensor gradient = matrix_of(5 + step + runtime.topology().rank);
        one.zero_grad();
        other.zero_grad();
        (plain * gradient + sharded * gradient).sum().backward();
        one.step();
        other.step();
      }
      EXPECT_EQ(difference(plain, sharded), 0.0);
      EXPECT_GT(difference(plain, make_parameter({kMatrixRows, kMatrixColumns}, 1)), 0.01);
    };
    one_host ? run_on_one_host(2, body) : run_ranks(2, body);
  }
}

}  // namespace
}  // namespace rueda
