// SPDX-License-Identifier: Apache-2.0
// Gradients that travel as two factors, with parameters on devices.
#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include <limits>
#include <mutex>

#include "core/engine/runtime.h"
#include "frameworks/torch/compression/powersgd_device.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/low_rank.h"
#include "tests/support/worlds/torch_device_world.h"

namespace rueda {
namespace {

using TorchDeviceFactors = TorchDeviceWorld;

at::Tensor weight_on(const FakeTorchDevice& device, at::IntArrayRef sizes = {kMatrixRows, kMatrixColumns},
                     at::ScalarType type = at::kDouble) {
  return make_parameter(sizes, 1, type).detach().to(device.name()).requires_grad_();
}

at::Tensor mean_of(Rank ranks) {
  at::Tensor sum = at::zeros({kMatrixRows, kMatrixColumns}, at::kDouble);
  for (Rank rank = 0; rank < ranks; ++rank) sum += thin_matrix(4, 20, 30 + rank);
  return sum / ranks;
}

TEST_F(TorchDeviceFactors, GradientsOfLowRankAreExactAndTheHostNeverWaits) {
  const TorchBody body = [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor weight = weight_on(device);
    const at::Tensor mine = thin_matrix(4, 20, 30 + runtime.topology().rank).to(device.name());
    GradientReducer reducer({weight}, at_rank(4), runtime);
    for (int step = 0; step < 3; ++step) {
      const long waits = device.host_waits();
      reduce_by(reducer, weight, mine);
      EXPECT_EQ(device.host_waits(), waits);
      EXPECT_LT(difference(weight.grad().cpu(), mean_of(3)), 1e-11) << step;
    }
  };
  run_torch(3, body);
  run_torch_by_the_host(3, body);
}

TEST_F(TorchDeviceFactors, WhatIsLeftOutIsAddedLater) {
  run_torch(3, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor weight = weight_on(device);
    GradientReducer reducer({weight}, at_rank(4), runtime);
    at::Tensor exact = at::zeros({kMatrixRows, kMatrixColumns}, at::kDouble), sum = exact.clone();
    for (int seed = 0; seed < 3; ++seed) exact += matrix_of(5 + seed) / 3;
    const at::Tensor mine = matrix_of(5 + runtime.topology().rank).to(device.name());
    reduce_by(reducer, weight, mine);
    sum += weight.grad().cpu();
    const double first = difference(sum, exact);
    for (int step = 0; step < 25; ++step) {
      reduce_by(reducer, weight, at::zeros_like(mine));
      sum += weight.grad().cpu();
    }
    EXPECT_GT(first, 0.1);
    EXPECT_LT(difference(sum, exact), 1e-9);
  });
}

// Each rank's device sums up in an order of its own.
TEST_F(TorchDeviceFactors, AllRanksHaveTheSameBitsWhateverTheirDevices) {
  std::vector<at::Tensor> results, factors;  // of one rank after the other
  std::mutex mutex;
  run_torch(3, [&](Runtime& runtime, const FakeTorchDevice& device) {
    const Rank rank = runtime.topology().rank;
    if (rank == 1) device.compute_otherwise();
    const at::Tensor weight = weight_on(device, {65, 110});
    GradientReducer reducer({weight}, at_rank(3), runtime);
    for (int step = 0; step < 4; ++step)
      reduce_by(reducer, weight, matrix_of(5 + 7 * step + rank, {65, 110}).to(device.name()));
    const at::Tensor rows = matrix_of(1, {3, 65}, at::kDouble).to(device.name());
    make_orthonormal_on_device(rows);
    const std::lock_guard lock(mutex);
    results.push_back(weight.grad().cpu().clone());
    factors.push_back(rows.cpu().clone());
  });
  ASSERT_EQ(results.size(), 3U);
  EXPECT_GT(results[0].norm().item<double>(), 1.0);
  for (const at::Tensor& each : results) EXPECT_TRUE(at::equal(each, results[0]));
  EXPECT_TRUE(std::ranges::any_of(factors, [&](const at::Tensor& each) {
    return !at::equal(each, factors[0]);
  })) << "nothing was different there";
}

TEST_F(TorchDeviceFactors, WhatIsNotFiniteIsToldAndForgotten) {
  constexpr int kSteps = 25;
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor weight = weight_on(device), same = weight_on(device);
    GradientReducer reducer({weight}, at_rank(2), runtime), undisturbed({same}, at_rank(2), runtime);
    const at::Tensor mine = matrix_of(5 + runtime.topology().rank).to(device.name());
    at::Tensor sum = at::zeros_like(mine), without = at::zeros_like(mine);
    for (int step = 0; step < kSteps; ++step) {
      if (step == 3) {
        at::Tensor spoilt = mine.clone();
        if (runtime.topology().rank == 1) spoilt[2][3] = std::numeric_limits<double>::infinity();
        reduce_by(reducer, weight, spoilt);
        EXPECT_FALSE(at::isfinite(weight.grad()).any().item<bool>());
      }
      reduce_by(reducer, weight, mine);
      reduce_by(undisturbed, same, mine);
      sum += weight.grad();
      without += same.grad();
    }
    const at::Tensor exact = ((matrix_of(5) + matrix_of(6)) / 2).to(device.name());
    EXPECT_LT((sum / kSteps - exact).norm().item<double>(),
              1.2 * (without / kSteps - exact).norm().item<double>());
  });
}

// A rank without a gradient counts as zeros; a bias travels whole; all of it with parts of the state.
TEST_F(TorchDeviceFactors, ShardedStepsAreTheSame) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const Rank rank = runtime.topology().rank;
    const auto model = [&] {
      return std::vector{weight_on(device), weight_on(device, {7}),
                         weight_on(device, {kMatrixColumns, kMatrixRows}).detach().t().requires_grad_()};
    };
    const std::vector<at::Tensor> plain = model(), sharded = model();
    const torch::optim::SGDOptions sgd(0.1);
    DistributedOptimizer<torch::optim::SGD> one(plain, sgd, at_rank(3), runtime);
    ShardedOptimizer<torch::optim::SGD> other(sharded, sgd, at_rank(3), runtime);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor gradient = matrix_of(5 + step + rank).to(device.name());
      one.zero_grad();
      other.zero_grad();
      for (const auto* each : {&plain, &sharded}) {
        at::Tensor loss = ((*each)[0] * gradient).sum() + (*each)[1].sum() * (1.0 + rank);
        if (rank == 0) loss = loss + ((*each)[2] * gradient).sum();
        loss.backward();
      }
      one.step();
      other.step();
    }
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(at::equal(plain[i].detach().cpu(), sharded[i].detach().cpu())) << i;
      EXPECT_GT(difference(plain[i].cpu(), model()[i].cpu()), 0.01) << i;
    }
  });
}

at::Tensor gram(const at::Tensor& rows) {
  const at::Tensor host = rows.cpu().to(at::kDouble);
  return at::mm(host, host.t());
}

TEST_F(TorchDeviceFactors, RowsBecomeOrthonormalAndWithNothingOfTheirOwnZero) {
  run_torch(1, [](Runtime&, const FakeTorchDevice& device) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      at::Tensor before = matrix_of(1, {5, 100}, type);
      before[1].zero_();
      before[2].copy_(before[0] * 4);
      before[3].copy_(before[0] + 1e-4 * before[3]);
      const at::Tensor rows = before.to(device.name());
      make_orthonormal_on_device(rows);
      const at::Tensor wanted = at::diag(at::tensor({1.0, 0.0, 0.0, 1.0, 1.0}));
      EXPECT_LT(difference(gram(rows), wanted), 1e-6);
      const at::Tensor host = rows.cpu();
      EXPECT_LT(difference(at::mm(at::mm(before, host.t()), host), before), 1e-5) << "in their span";
    }
  });
}

TEST_F(TorchDeviceFactors, DirectionsHaveTheLengthOneAndDifferByRowAndSeed) {
  run_torch(1, [](Runtime&, const FakeTorchDevice& device) {
    at::Tensor rows = at::zeros({8, 50}, at::kFloat);
    rows[1].fill_(3.0);
    rows[2].fill_(std::numeric_limits<float>::quiet_NaN());
    const at::Tensor there = rows.to(device.name());
    const at::Tensor found = directions_on_device(there, 7).cpu(),
                     other = directions_on_device(there, 8).cpu();
    EXPECT_LT(difference(at::diagonal(gram(found)), at::ones({8}, at::kDouble)), 1e-6);
    EXPECT_LT(difference(found[1], at::full({50}, 1 / std::sqrt(50.0))), 1e-6) << "the same direction";
    EXPECT_LT(difference(gram(found), at::eye(8, at::kDouble)), 0.7) << "of rank 8, far from parallel";
    EXPECT_GT(difference(found, other), 0.1);
    EXPECT_EQ(directions_on_device(there, 7).scalar_type(), at::kFloat);
  });
}

}  // namespace
}  // namespace rueda
