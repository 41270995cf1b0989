// SPDX-License-Identifier: Apache-2.0
// Gradients that a hook of the program's own reduces.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "tests/support/rank_words.h"
#include "tests/support/training/low_rank.h"
#include "tests/support/words_of.h"

namespace rueda {
namespace {

// Rounds to bfloat16, and adds what that has lost to the next gradient.
class RoundingHook final : public CommunicationHook {
 public:
  explicit RoundingHook(HookedParameter of) : of_(std::move(of)) {}
  void begin(const at::Tensor& gradient) override {
    gradient_ = gradient;
    const at::Tensor wanted = lost_.defined() ? gradient + lost_ : gradient;
    at::Tensor rounded = wanted.to(at::kBFloat16).to(wanted.scalar_type());
    lost_ = wanted - rounded;
    sum_ = allreduce_async_(std::move(rounded), of_.operation, of_.reduction, of_.scope.get());
  }
  Status finish() override {
    Status status = sum_->wait_status();
    if (status.ok()) gradient_.copy_(sum_->wait());
    return status;
  }
  void clear() override {
    sum_.reset();
    gradient_.reset();
  }

 private:
  const HookedParameter of_;
  at::Tensor lost_, gradient_;
  std::optional<TensorHandle> sum_;
};

DistributedOptions by_rounding() {
  DistributedOptions options;
  options.hook.name = "rounding";
  options.hook.make = [](const HookedParameter& of) { return std::make_unique<RoundingHook>(of); };
  return options;
}

TEST(CommunicationHook, ReducesGradientsAndKeepsItsState) {
  for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
    in_both_worlds(2, [&](Runtime& runtime) {
      const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1);
      DistributedOptions options = by_rounding();
      options.op = op;
      GradientReducer reducer({weight}, options, runtime);
      const at::Tensor exact = (matrix_of(5) + matrix_of(6)) / (op == ReduceOp::average ? 2 : 1);
      at::Tensor sum = at::zeros_like(exact);
      double first = 0.0;
      for (int step = 1; step <= 64; ++step) {
        reduce_by(reducer, weight, matrix_of(5 + runtime.topology().rank));
        sum += weight.grad();
        if (step == 1) first = difference(sum, exact);
      }
      EXPECT_GT(first, 1e-4) << "it has not been rounded";
      EXPECT_LT(difference(sum / 64, exact), first / 4) << to_string(op);
    });
  }
}

TEST(CommunicationHook, AppliesToSomeParameters) {
  in_both_worlds(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({kMatrixRows, kMatrixColumns}, 1), bias = make_parameter({7}, 2);
    DistributedOptions options = by_rounding();
    options.groups = {{weight, bias}};
    options.hook.applies = [](const at::Tensor& parameter) { return parameter.dim() > 1; };
    GradientReducer reducer({weight, bias}, options, runtime);
    const Rank rank = runtime.topology().rank;
    ((weight * matrix_of(5 + rank)).sum() + (bias * matrix_of(7 + rank, {7})).sum()).backward();
    reducer.synchronize();
    EXPECT_GT(difference(weight.grad(), (matrix_of(5) + matrix_of(6)) / 2), 1e-4);
    EXPECT_LT(difference(weight.grad(), (matrix_of(5) + matrix_of(6)) / 2), 1e-1);
    EXPECT_LT(difference(bias.grad(), (matrix_of(7, {7}) + matrix_of(8, {7})) / 2), 1e-12);
  });
}

// A rank without a gradient takes part with zeros.
TEST(CommunicationHook, StandsInForAMissingGradient) {
  in_both_worlds(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({4, 3}, 1), other = make_parameter({2}, 2);
    GradientReducer reducer({weight, other}, by_rounding(), runtime);
    at::Tensor loss = other.sum();
    if (runtime.topology().rank == 0) loss = loss + weight.sum();
    loss.backward();
    reducer.synchronize();
    EXPECT_TRUE(at::equal(weight.grad(), at::full({4, 3}, 0.5, at::kDouble)));
    EXPECT_TRUE(at::equal(other.grad(), at::ones({2}, at::kDouble)));
  });
}

// Throws in its first finish().
class FailingHook final : public CommunicationHook {
 public:
  explicit FailingHook(HookedParameter of) : hook_(std::move(of)) {}
  void begin(const at::Tensor& gradient) override { hook_.begin(gradient); }
  Status finish() override {
    const Status status = hook_.finish();
    if (!std::exchange(failed_, true)) throw std::domain_error("not now");
    return status;
  }
  void clear() override { hook_.clear(); }

 private:
  RoundingHook hook_;
  bool failed_ = false;
};

TEST(CommunicationHook, WhatItThrowsLeavesNothingInFlight) {
  in_both_worlds(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({4, 3}, 1), other = make_parameter({2}, 2);
    DistributedOptions options = by_rounding();
    options.hook.make = [](const HookedParameter& of) { return std::make_unique<FailingHook>(of); };
    GradientReducer reducer({weight, other}, options, runtime);
    const auto reduce = [&] {
      reducer.before_zero_grad();
      for (const at::Tensor& each : {weight, other}) each.mutable_grad().reset();
      (weight.sum() + other.sum()).backward();
      reducer.synchronize();
    };
    EXPECT_THROW(reduce(), std::domain_error);
    reduce();
    EXPECT_TRUE(at::equal(weight.grad(), at::ones({4, 3}, at::kDouble)));
    EXPECT_TRUE(at::equal(other.grad(), at::ones({2}, at::kDouble)));
  });
}

TEST(CommunicationHook, WhatCannotBeIsRefused) {
  RankWords names;
  run_ranks(2, [&](Runtime& runtime) {
    const at::Tensor weight = make_parameter({4, 3}, 1);
    const auto expect = [&](const char* what, const std::function<void(DistributedOptions&)>& change) {
      DistributedOptions options = by_rounding();
      change(options);
      const std::string words = words_of([&] { const GradientReducer reducer({weight}, options, runtime); });
      EXPECT_NE(words.find(what), std::string::npos) << words;
    };
    expect("the hook 'rounding' cannot be together with low_rank.rank 2",
           [](auto& options) { options.low_rank.rank = 2; });
    expect("cannot be together with op adasum", [](auto& options) { options.op = ReduceOp::adasum; });
    expect("with schedule one_step_late",
           [](auto& options) { options.schedule = SyncSchedule::one_step_late(); });
    expect("hook '' has no name", [](auto& options) { options.hook.name.clear(); });
    expect("hook 'rounding' has nothing that makes it", [](auto& options) { options.hook.make = nullptr; });
    names.of([&] {
      DistributedOptions options = by_rounding();
      if (runtime.topology().rank == 1) options.hook.name = "another";
      const GradientReducer reducer({weight}, options, runtime);
    });
  });
  for (const char* each : {"hook 'rounding'", "hook 'another'"})
    EXPECT_NE(names.common(2).find(each), std::string::npos) << names.common(2);
}

}  // namespace
}  // namespace rueda
