// SPDX-License-Identifier: Apache-2.0
// Gradients that are reduced when backward() returns (synchronize_in_backward), on ranks that are threads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "frameworks/torch/gradient_reducer.h"
#include "tests/support/memory_world.h"
#include "tests/support/regression.h"
#include "tests/support/words_of.h"

namespace rueda {
namespace {

DistributedOptions in_backward(int passes = 1, std::optional<bool> overlap = std::nullopt) {
  return {.backward_passes_per_step = passes, .overlap = overlap, .synchronize_in_backward = true};
}

// A gradient of rank + 1 everywhere, so 1.5 on average over two ranks.
void run_pass(const at::Tensor& parameter, Rank rank) { (parameter.sum() * (rank + 1.0)).backward(); }

double first_gradient(const at::Tensor& parameter) { return parameter.grad()[0].item<double>(); }

TEST(InBackward, WhatComesNextSeesReducedGradients) {
  for (const bool overlap : {true, false}) {
    run_on_one_host(2, [&](Runtime& runtime) {
      const at::Tensor parameter = make_parameter({5}, 1);
      GradientReducer reducer({parameter}, in_backward(1, overlap), runtime);
      for (int step = 0; step < 3; ++step) {
        run_pass(parameter, runtime.topology().rank);
        EXPECT_EQ(first_gradient(parameter), 1.5);
        EXPECT_TRUE(reducer.before_step());
        EXPECT_EQ(first_gradient(parameter), 1.5);
        EXPECT_TRUE(reducer.before_zero_grad());
        parameter.mutable_grad().reset();
      }
    });
  }
}

TEST(InBackward, OnlyTheLastPassOfAStepWaits) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, in_backward(2), runtime);
    const Rank rank = runtime.topology().rank;
    run_pass(parameter, rank);
    EXPECT_EQ(first_gradient(parameter), rank + 1.0);
    run_pass(parameter, rank);
    EXPECT_EQ(first_gradient(parameter), 1.5);
    reducer.before_step();
  });
}

TEST(InBackward, AScheduleThatAccumulatesWaitsAtItsLastStep) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    DistributedOptions options = in_backward();
    options.schedule = SyncSchedule::accumulate(2);
    GradientReducer reducer({parameter}, options, runtime);
    const Rank rank = runtime.topology().rank;
    run_pass(parameter, rank);
    EXPECT_FALSE(reducer.before_step());
    EXPECT_FALSE(reducer.before_zero_grad());
    EXPECT_EQ(first_gradient(parameter), rank + 1.0);
    run_pass(parameter, rank);
    EXPECT_EQ(first_gradient(parameter), 1.5);
    EXPECT_TRUE(reducer.before_step());
    EXPECT_TRUE(reducer.before_zero_grad());
  });
}

TEST(InBackward, AnotherPassOfTheStepIsReducedToo) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, in_backward(), runtime);
    run_pass(parameter, runtime.topology().rank);
    run_pass(parameter, runtime.topology().rank);
    EXPECT_EQ(first_gradient(parameter), 3.0);
    reducer.before_step();
  });
}

TEST(InBackward, ARankWithoutABackwardPassTakesPartWhenItSteps) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, in_backward(), runtime);
    if (runtime.topology().rank == 0) run_pass(parameter, 0);
    reducer.before_step();
    EXPECT_EQ(first_gradient(parameter), 0.5);
  });
}

TEST(InBackward, AFailureIsToldByTheStepAndTheNextWorks) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor first = make_parameter({5}, 1), second = make_parameter({5}, 2);
    GradientReducer reducer({first, second}, in_backward(), runtime);
    const Rank rank = runtime.topology().rank;
    second.mutable_grad() = at::ones({5}, rank == 0 ? at::kDouble : at::kFloat);
    run_pass(first, rank);
    EXPECT_THAT(words_of<Mismatch>([&] { reducer.before_step(); }),
                testing::HasSubstr("gradient of parameter 'parameter.1'"));
    EXPECT_TRUE(reducer.before_zero_grad());
    first.mutable_grad().reset();
    second.mutable_grad().reset();
    run_pass(first, rank);
    EXPECT_EQ(first_gradient(first), 1.5);
    EXPECT_TRUE(reducer.before_step());
  });
}

}  // namespace
}  // namespace rueda
