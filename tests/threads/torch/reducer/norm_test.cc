// SPDX-License-Identifier: Apache-2.0
// The norm of reduced gradients: found on the way, or in a pass of its own.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/embedding.h>

#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/engine/runtime.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/training/scheduled_training.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

// Parameters of many sizes, one of them strided, one of whole chunks; gradients differ by rank.
std::vector<at::Tensor> parameters() {
  std::vector<at::Tensor> all;
  for (const std::int64_t size : {1, 7, 1000, 70'000}) all.push_back(make_parameter({size}, 1, at::kFloat));
  all.push_back(make_parameter({30, 20}, 2, at::kFloat).detach().t().requires_grad_());
  return all;
}

void backward(const std::vector<at::Tensor>& parameters, Rank rank) {
  at::Tensor loss = at::zeros({});
  for (std::size_t i = 0; i < parameters.size(); ++i)
    loss = loss + (at::sin(parameters[i] * (rank + 1.0)) * (i + 1.0)).sum();
  loss.backward();
}

double norm_of(const std::vector<at::Tensor>& parameters) {
  double sum = 0.0;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) sum += parameter.grad().to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(sum);
}

TEST(GradientNorm, IsTheSameWithAndWithoutMeasuring) {
  const auto body = [](Runtime& runtime) {
    for (const bool measure : {false, true}) {
      const std::vector<at::Tensor> all = parameters();
      DistributedOptions options;
      options.measure_norm = measure;
      GradientReducer reducer(all, options, runtime);
      for (int step = 0; step < 4; ++step) {
        reducer.before_zero_grad();
        for (const at::Tensor& parameter : all) parameter.mutable_grad().reset();
        backward(all, runtime.topology().rank + step);
        const double norm = reducer.grad_norm();
        EXPECT_NEAR(norm / norm_of(all), 1.0, 1e-6) << "measured " << measure << ", step " << step;
        EXPECT_EQ(reducer.grad_norm(), norm);
        EXPECT_TRUE(reducer.before_step());
      }
    }
  };
  for (const Rank ranks : {1, 2, 3}) run_ranks(ranks, body);
  for (const Rank ranks : {2, 4}) run_on_one_host(ranks, body);
}

TEST(GradientNorm, IsClippedTo) {
  for (const bool measure : {false, true}) {
    run_on_one_host(2, [&](Runtime& runtime) {
      const std::vector<at::Tensor> all = parameters();
      DistributedOptions options;
      options.measure_norm = measure;
      GradientReducer reducer(all, options, runtime);
      backward(all, runtime.topology().rank);
      reducer.synchronize();
      const double before = norm_of(all);
      EXPECT_NEAR(reducer.clip_grad_norm_(10 * before) / before, 1.0, 1e-6);
      EXPECT_NEAR(norm_of(all) / before, 1.0, 1e-12);
      EXPECT_NEAR(reducer.clip_grad_norm_(0.5) / before, 1.0, 1e-6);
      EXPECT_NEAR(norm_of(all), 0.5, 1e-5);
      EXPECT_NEAR(reducer.clip_grad_norm_(0.5), 0.5, 1e-6);  // a second time changes nothing
      EXPECT_NEAR(norm_of(all), 0.5, 1e-5);
      EXPECT_THROW(reducer.clip_grad_norm_(0.0), InvalidArgument);
      EXPECT_THROW(reducer.clip_grad_norm_(NAN), InvalidArgument);
    });
  }
}

// What one rank alone has is everybody's, and changes nothing.
TEST(GradientNorm, TellsOfWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    run_on_one_host(3, [&](Runtime& runtime) {
      const at::Tensor weight = make_parameter({5000}, 1, at::kFloat);
      DistributedOptions options;
      options.measure_norm = true;
      GradientReducer reducer({weight}, options, runtime);
      at::Tensor factors = at::ones({5000});
      if (runtime.topology().rank == 2) factors[4321] = bad;
      (weight * factors).sum().backward();
      EXPECT_FALSE(std::isfinite(reducer.clip_grad_norm_(1.0)));
      EXPECT_EQ(weight.grad()[0].item<float>(), 1.0F);
    });
  }
}

TEST(GradientNorm, IsNoneWhereNothingIsSteppedOn) {
  on_scheduled_ranks(SyncSchedule::accumulate(2),
                     [](DistributedSgd& optimizer, Regression& model, Rank rank) {
                       for (int i = 0; i < 4; ++i) {
                         optimizer.zero_grad();
                         model.loss(batch_of(rank, i)).backward();
                         const double norm = optimizer.clip_grad_norm_(1e9);
                         EXPECT_EQ(norm > 0, i % 2 == 1) << i;
                         if (i % 2 == 1) {
                           EXPECT_NEAR(norm / norm_of(model.tensors()), 1.0, 1e-6);
                         }
                         optimizer.step();
                       }
                     });
}

// Rows that all have gathered are counted once.
TEST(GradientNorm, CountsSparseGradients) {
  run_ranks(3, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({50, 3}, 1), bias = make_parameter({4}, 2);
    DistributedOptions options;
    options.sparse = SparseGradients::by_density;
    options.measure_norm = true;
    GradientReducer reducer({table, bias}, options, runtime);
    namespace functional = torch::nn::functional;
    const at::Tensor rows = at::tensor({std::int64_t{runtime.topology().rank}, std::int64_t{9}});
    const at::Tensor found =
        functional::embedding(rows, table, functional::EmbeddingFuncOptions().sparse(true));
    (found.sum() + bias.sum()).backward();
    const double norm = reducer.grad_norm();
    ASSERT_EQ(table.grad().layout(), at::kSparse);
    const double expected = table.grad().to_dense().square().sum().item<double>() + 4.0;
    EXPECT_NEAR(norm / std::sqrt(expected), 1.0, 1e-6);
  });
}

// Without measuring it is of what is in .grad now.
TEST(GradientNorm, SeesWhatTheProgramHasDone) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({4}, 1);
    GradientReducer reducer({weight}, {}, runtime);
    weight.sum().backward();
    EXPECT_EQ(reducer.grad_norm(), 2.0);
    weight.mutable_grad().mul_(3.0);
    EXPECT_EQ(reducer.grad_norm(), 6.0);
    EXPECT_EQ(reducer.clip_grad_norm_(1.5), 6.0);
    EXPECT_LT(difference(weight.grad(), at::full({4}, 0.75, at::kDouble)), 1e-12);
  });
}

// The same row twice: its gradients are one before squares are taken.
TEST(GradientNorm, OfRowsThatComeTwice) {
  run_ranks(1, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({50, 4}, 1);
    GradientReducer reducer({table}, {.schedule = SyncSchedule::local_sgd(9)}, runtime);
    namespace functional = torch::nn::functional;
    const at::Tensor rows = at::tensor({std::int64_t{7}, std::int64_t{7}});
    functional::embedding(rows, table, functional::EmbeddingFuncOptions().sparse(true)).sum().backward();
    EXPECT_EQ(reducer.clip_grad_norm_(2.0), 4.0);
    EXPECT_EQ(difference(table.grad().to_dense()[7], at::ones({4}, at::kDouble)), 0.0);
  });
}

TEST(GradientNorm, MustBeMeasuredByAll) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({4}, 1);
    DistributedOptions options;
    options.measure_norm = runtime.topology().rank == 1;
    EXPECT_THROW(GradientReducer({weight}, options, runtime), Mismatch);
  });
}

}  // namespace
}  // namespace rueda
