// SPDX-License-Identifier: Apache-2.0
// Gradients that travel as two factors: what is refused, and what is left after a failure.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "tests/support/rank_words.h"
#include "tests/support/training/low_rank.h"
#include "tests/support/words_of.h"

namespace rueda {
namespace {

TEST(LowRank, RanksThatDifferAreTold) {
  RankWords of_rank, of_list;
  run_ranks(2, [&](Runtime& runtime) {
    const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1);
    const Rank rank = runtime.topology().rank;
    of_rank.of([&] { const GradientReducer reducer({weight}, at_rank(2 + rank), runtime); });
    DistributedOptions options = at_rank(2);
    if (rank == 1) options.low_rank.without = {weight};
    of_list.of([&] { const GradientReducer reducer({weight}, options, runtime); });
  });
  for (const char* each : {"low_rank 2", "low_rank 3", "rank 0", "rank 1"})
    EXPECT_NE(of_rank.common(2).find(each), std::string::npos) << of_rank.common(2);
  EXPECT_NE(of_list.common(2).find("'parameter.0' float64 [40, 30] as factors of rank 2"), std::string::npos)
      << of_list.common(2);
}

TEST(LowRank, WhatCannotBeIsRefused) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1);
    const auto words = [&](const std::function<void(DistributedOptions&)>& change) {
      DistributedOptions options = at_rank(2);
      change(options);
      return words_of([&] { const GradientReducer reducer({weight}, options, runtime); });
    };
    const auto expect = [&](const char* what, const std::function<void(DistributedOptions&)>& change) {
      EXPECT_NE(words(change).find(what), std::string::npos) << words(change);
    };
    expect("low_rank.rank is -1; it must be at least 1", [](auto& options) { options.low_rank.rank = -1; });
    expect("low_rank.rank is 2, and gradients that travel as factors cannot be together with op adasum",
           [](auto& options) { options.op = ReduceOp::adasum; });
    expect("with groups", [&](auto& options) { options.groups = {{weight}}; });
    expect("with reduction_order fixed",
           [](auto& options) { options.reduction_order = ReductionOrder::fixed; });
    expect("with schedule one_step_late",
           [](auto& options) { options.schedule = SyncSchedule::one_step_late(); });
    expect("with schedule local_sgd", [](auto& options) { options.schedule = SyncSchedule::local_sgd(4); });
    expect("low_rank.without has a tensor that is no parameter of this optimizer", [](auto& options) {
      options.low_rank.without = {at::zeros({2, 2})};
    });
  });
}

// A parameter that one rank has changed fails by name, alone, in the first factor or the second; the next
// step works.
TEST(LowRank, AFailureLeavesNothingInFlight) {
  const auto body = [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1),
                     other = make_parameter({kMatrixRows, kMatrixColumns}, 2);
    GradientReducer reducer({weight, other}, at_rank(4), runtime);
    const auto reduce_both = [&](const at::Tensor& gradient) {
      reducer.before_zero_grad();
      for (const at::Tensor& each : {weight, other}) each.mutable_grad().reset();
      (other * thin_matrix(4, 21, 30 + rank)).sum().backward();
      weight.mutable_grad() = gradient.clone();  // by hand: autograd would refuse these sizes itself
      reducer.synchronize();
    };
    for (const std::vector<std::int64_t>& sizes :
         std::vector<std::vector<std::int64_t>>{{50, 30}, {40}, {0, 30}, {}, {40, 29}}) {
      if (rank == 1) weight.set_data(matrix_of(1, sizes));
      const std::string words = words_of<Mismatch>([&] { reduce_both(matrix_of(3, weight.sizes())); });
      EXPECT_NE(words.find("gradient of parameter 'parameter.0'"), std::string::npos) << words;
      weight.mutable_grad().reset();
      weight.set_data(matrix_of(1));
      reduce_both(thin_matrix(4, 20, 30 + rank));
      EXPECT_LT(difference(weight.grad(), (thin_matrix(4, 20, 30) + thin_matrix(4, 20, 31)) / 2), 1e-10);
    }
  };
  in_both_worlds(2, body);
}

// Which then comes as if that step had not been.
TEST(LowRank, AFailureKeepsWhatWasLeftOutBefore) {
  run_ranks(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1);
    GradientReducer reducer({weight}, at_rank(4), runtime);
    const at::Tensor none = at::zeros({kMatrixRows, kMatrixColumns}, at::kDouble);
    reduce_by(reducer, weight, matrix_of(5 + rank));
    at::Tensor sum = weight.grad().clone();
    if (rank == 1) weight.set_data(matrix_of(1, {kMatrixRows, kMatrixColumns}, at::kFloat));
    weight.mutable_grad().reset();
    EXPECT_THROW(
        reduce_by(reducer, weight, matrix_of(7, {kMatrixRows, kMatrixColumns}, weight.scalar_type())),
        Mismatch);
    weight.mutable_grad().reset();
    weight.set_data(matrix_of(1));
    for (int step = 0; step < 25; ++step) {
      reduce_by(reducer, weight, none);
      sum += weight.grad();
    }
    EXPECT_LT(difference(sum, (matrix_of(5) + matrix_of(6)) / 2), 1e-9);
  });
}

TEST(LowRank, ALostRankEndsTheStepForAll) {
  MemoryNetwork network(3);
  std::atomic<int> past_the_barrier{0};
  run_ranks_on(network, 3, [&](Runtime& runtime) {
    const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1);
    DistributedOptions options = at_rank(4);
    options.overlap = true;
    GradientReducer reducer({weight}, options, runtime);
    reduce_by(reducer, weight, matrix_of(1));
    barrier(runtime);
    ++past_the_barrier;
    if (runtime.topology().rank == 2) {
      while (past_the_barrier < 3) std::this_thread::yield();  // else the barrier may end with an error
      network.lose(2);
      return;
    }
    EXPECT_THROW(reduce_by(reducer, weight, matrix_of(2)), Error);
    EXPECT_NO_THROW(reducer.before_zero_grad());
  });
}

}  // namespace
}  // namespace rueda
