// SPDX-License-Identifier: Apache-2.0
// Parameters whose gradients are reduced together.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/engine/runtime.h"
#include "rueda/torch/reducer/gradient_reducer.h"
#include "tests/support/training/regression.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

std::vector<at::Tensor> parameters_of(int count) {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < count; ++i) parameters.push_back(make_parameter({3 + i}, i));
  return parameters;
}

at::Tensor expected_of(const at::Tensor& parameter, double value) {
  return at::full(parameter.sizes(), value, at::kDouble);
}

TEST(GradientGroups, AreMadeOfEqualLength) {
  const std::vector<at::Tensor> parameters = parameters_of(5);
  const auto sizes = [&](std::size_t groups) {
    std::vector<std::size_t> sizes;
    for (const auto& group : in_groups(parameters, groups)) sizes.push_back(group.size());
    return sizes;
  };
  EXPECT_EQ(sizes(1), (std::vector<std::size_t>{5}));
  EXPECT_EQ(sizes(2), (std::vector<std::size_t>{3, 2}));
  EXPECT_EQ(sizes(5), (std::vector<std::size_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(sizes(9), (std::vector<std::size_t>{1, 1, 1, 1, 1}));
  EXPECT_TRUE(sizes(0).empty());
  EXPECT_TRUE(in_groups(parameters, 2)[1][0].is_same(parameters[3]));
}

// While the backward pass runs: nothing of a group is submitted before its last member is there.
TEST(GradientGroups, AreReducedAsAWhole) {
  run_ranks(3, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters = parameters_of(6);
    DistributedOptions options;
    options.groups = {{parameters[0], parameters[3], parameters[5]}, {parameters[1], parameters[2]}};
    options.overlap = true;
    GradientReducer reducer(parameters, options, runtime);
    for (int step = 0; step < 3; ++step) {
      for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
      at::Tensor loss = at::zeros({}, at::kDouble);
      for (std::size_t i = 0; i < 6; ++i)
        loss = loss + parameters[i].sum() * (i + 1.0 + runtime.topology().rank);
      const MetricsSnapshot before = runtime.metrics();
      loss.backward();
      reducer.synchronize();
      const MetricsSnapshot after = runtime.metrics();
      EXPECT_GE(after.fused_tensors - before.fused_tensors, 5u);  // the groups, whatever else
      EXPECT_LE(after.plans - before.plans, 4u);                  // they, parameter 4 and presence
      for (std::size_t i = 0; i < 6; ++i)
        EXPECT_EQ(difference(parameters[i].grad(), expected_of(parameters[i], i + 2.0)), 0.0);
    }
  });
}

TEST(GradientGroups, WhatIsMissingInOneIsZero) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const std::vector<at::Tensor> parameters = parameters_of(5);
    DistributedOptions options;
    options.groups = {{parameters[0], parameters[1], parameters[2]}, {parameters[3], parameters[4]}};
    GradientReducer reducer(parameters, options, runtime);
    for (int step = 0; step < 3; ++step) {
      for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
      // 0 everywhere, 1 on rank 1, 2 nowhere; the second group on no rank, or on rank 0 only.
      at::Tensor loss = parameters[0].sum();
      if (rank == 1) loss = loss + parameters[1].sum();
      if (rank == 0 && step == 1) loss = loss + parameters[4].sum();
      loss.backward();
      reducer.synchronize();
      EXPECT_EQ(difference(parameters[0].grad(), expected_of(parameters[0], 1.0)), 0.0);
      EXPECT_EQ(difference(parameters[1].grad(), expected_of(parameters[1], 0.5)), 0.0);
      EXPECT_FALSE(parameters[2].grad().defined());
      EXPECT_FALSE(parameters[3].grad().defined());
      EXPECT_EQ(parameters[4].grad().defined(), step == 1);
      if (step == 1) {
        EXPECT_EQ(difference(parameters[4].grad(), expected_of(parameters[4], 0.5)), 0.0);
      }
    }
  });
}

// One member of another type on one rank: the whole group fails, everywhere, and the next step works.
TEST(GradientGroups, FailTogether) {
  run_ranks(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters = parameters_of(3);
    DistributedOptions options;
    options.groups = {{parameters[0], parameters[1]}};
    GradientReducer reducer(parameters, options, runtime);
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = expected_of(parameter, 1.0);
    if (runtime.topology().rank == 1) parameters[1].mutable_grad() = at::ones({4}, at::kFloat);
    EXPECT_THROW(reducer.synchronize(), Mismatch);
    for (const at::Tensor& parameter : parameters) {
      parameter.mutable_grad() = expected_of(parameter, runtime.topology().rank == 0 ? 1.0 : 3.0);
    }
    reducer.synchronize();
    for (const at::Tensor& parameter : parameters)
      EXPECT_EQ(difference(parameter.grad(), expected_of(parameter, 2.0)), 0.0);
  });
}

template <class Failure>
std::string failure_of(Runtime& runtime, const std::vector<at::Tensor>& parameters,
                       const DistributedOptions& options) {
  return words_of<Failure>([&] { const GradientReducer reducer(parameters, options, runtime); });
}

TEST(GradientGroups, ThatAreNotClearAreRefused) {
  run_ranks(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters = parameters_of(3);
    DistributedOptions options;
    options.groups = {{parameters[0]}, {parameters[1], parameters[0]}};
    EXPECT_NE(failure_of<InvalidArgument>(runtime, parameters, options)
                  .find("parameter 0 is in group 0 and in group 1"),
              std::string::npos);
    options.groups = {{make_parameter({2}, 9)}};
    EXPECT_NE(failure_of<InvalidArgument>(runtime, parameters, options)
                  .find("group 0 has a tensor that is no parameter"),
              std::string::npos);
    options.groups = {{parameters[0], parameters[runtime.topology().rank == 0 ? 1 : 2]}};
    const std::string words = failure_of<Mismatch>(runtime, parameters, options);
    EXPECT_NE(words.find("'parameter.1' float64 [4] in group 0"), words.npos) << words;
  });
}

}  // namespace
}  // namespace rueda
