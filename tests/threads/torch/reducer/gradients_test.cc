// SPDX-License-Identifier: Apache-2.0
// Gradients reduced over ranks that are threads, against plain LibTorch on the whole batch.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/reducer/gradient_reducer.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

constexpr double kExact = 1e-12;

// .grad of each parameter, copied.
std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  }
  return gradients;
}

std::vector<at::Tensor> plain_gradients(const Batch& batch) {
  const Regression model;
  model.loss(batch).backward();
  return gradients_of(model.tensors());
}

void expect_near(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_LT(difference(actual[i], expected[i]), kExact) << i;
}

DistributedOptions with_passes(int passes, bool overlap = true) {
  DistributedOptions options;
  options.backward_passes_per_step = passes;
  options.overlap = overlap;
  return options;
}

// Two parameters of which `uses` says whether the loss depends on them.
at::Tensor loss_of(const std::vector<at::Tensor>& parameters, const std::vector<bool>& uses) {
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (uses[i]) loss = loss + parameters[i].sum() * static_cast<double>(i + 1);
  }
  return loss;
}

class Gradients : public testing::TestWithParam<std::tuple<Rank, bool, bool>> {
 protected:
  Rank ranks() const { return std::get<0>(GetParam()); }
  bool overlap() const { return std::get<1>(GetParam()); }
  // Of one host, or each of its own.
  void run(const std::function<void(Runtime&)>& body) const {
    std::get<2>(GetParam()) ? run_on_one_host(ranks(), body) : run_ranks(ranks(), body);
  }
};

TEST_P(Gradients, AreAveragedOverRanksAndEqualEverywhere) {
  const std::vector<at::Tensor> expected = plain_gradients(make_batch(0, 4 * ranks()));
  std::vector<std::vector<at::Tensor>> found(ranks());
  run([&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const Regression model;
    GradientReducer reducer(model.tensors(), with_passes(1, overlap()), runtime);
    model.loss(make_batch(4 * rank, 4)).backward();
    reducer.synchronize();
    found[rank] = gradients_of(model.tensors());
    reducer.synchronize();  // harmless
    expect_near(gradients_of(model.tensors()), expected);
  });
  for (const auto& gradients : found) {
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(gradients[i], found[0][i]));
  }
}

TEST_P(Gradients, OfSeveralPassesEqualOneBigBatch) {
  const std::vector<at::Tensor> expected = plain_gradients(make_batch(0, 12 * ranks()));
  run([&](Runtime& runtime) {
    const Regression model;
    GradientReducer reducer(model.tensors(), with_passes(3, overlap()), runtime);
    for (int step = 0; step < 2; ++step) {
      for (int pass = 0; pass < 3; ++pass) {
        model.loss(make_batch(12 * runtime.topology().rank + 4 * pass, 4)).backward();
      }
      reducer.before_step();
      expect_near(gradients_of(model.tensors()), expected);
      reducer.before_zero_grad();
      for (at::Tensor& parameter : model.tensors()) parameter.mutable_grad().reset();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Gradients,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Bool(), testing::Bool()));

TEST(GradientPasses, AnEarlyStepAveragesOverThePassesDone) {
  const std::vector<at::Tensor> expected = plain_gradients(make_batch(0, 4));
  run_on_one_host(2, [&](Runtime& runtime) {
    const Regression model;
    GradientReducer reducer(model.tensors(), with_passes(4), runtime);
    const int passes = 2 + runtime.topology().rank;  // ranks may differ, as in the last batches of an epoch
    for (int pass = 0; pass < passes; ++pass) model.loss(make_batch(0, 4)).backward();
    reducer.before_step();
    expect_near(gradients_of(model.tensors()), expected);
  });
}

TEST(GradientPasses, AreCountedPerBackwardNotPerParameter) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({3}, 1), make_parameter({3}, 2)};
    GradientReducer reducer(parameters, with_passes(2), runtime);
    loss_of(parameters, {true, false}).backward();
    loss_of(parameters, {false, true}).backward();
    reducer.before_step();
    EXPECT_EQ(difference(parameters[0].grad(), at::full({3}, 0.5, at::kDouble)), 0.0);
    EXPECT_EQ(difference(parameters[1].grad(), at::full({3}, 1.0, at::kDouble)), 0.0);
  });
}

TEST(GradientPasses, RetainedGraphCountsTwice) {
  const std::vector<at::Tensor> expected = plain_gradients(make_batch(0, 4));
  run_on_one_host(2, [&](Runtime& runtime) {
    const Regression model;
    GradientReducer reducer(model.tensors(), with_passes(2), runtime);
    const at::Tensor loss = model.loss(make_batch(0, 4));
    loss.backward({}, true);
    loss.backward();
    reducer.synchronize();
    expect_near(gradients_of(model.tensors()), expected);
  });
}

TEST(GradientPasses, MayRunInTwoThreads) {
  const std::vector<at::Tensor> expected = plain_gradients(make_batch(0, 4));
  run_on_one_host(2, [&](Runtime& runtime) {
    const Regression model;
    GradientReducer reducer(model.tensors(), with_passes(2), runtime);
    std::thread other([&] { model.loss(make_batch(0, 4)).backward(); });
    model.loss(make_batch(0, 4)).backward();
    other.join();
    reducer.synchronize();
    expect_near(gradients_of(model.tensors()), expected);
  });
}

TEST(MissingGradients, OnOneRankCountAsZeros) {
  run_on_one_host(3, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({2, 3}, 1), make_parameter({4}, 2)};
    GradientReducer reducer(parameters, {}, runtime);
    for (int step = 0; step < 2; ++step) {
      loss_of(parameters, {true, runtime.topology().rank == 1}).backward();
      reducer.before_step();
      EXPECT_EQ(difference(parameters[0].grad(), at::full({2, 3}, 1.0, at::kDouble)), 0.0);
      EXPECT_LT(difference(parameters[1].grad(), at::full({4}, 2.0 / 3, at::kDouble)), kExact);
      for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    }
  });
}

TEST(MissingGradients, ARankWithoutAnyBackwardPassTakesPart) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({2}, 1)};
    GradientReducer reducer(parameters, {}, runtime);
    if (runtime.topology().rank == 0) loss_of(parameters, {true}).backward();
    reducer.before_step();
    EXPECT_EQ(difference(parameters[0].grad(), at::full({2}, 0.5, at::kDouble)), 0.0);
  });
}

TEST(MissingGradients, OnAllRanksStayUndefined) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({2}, 1), make_parameter({4}, 2)};
    GradientReducer reducer(parameters, {}, runtime);
    loss_of(parameters, {true, false}).backward();
    reducer.synchronize();
    EXPECT_TRUE(parameters[0].grad().defined());
    EXPECT_FALSE(parameters[1].grad().defined());
  });
}

TEST(MissingGradients, AFrozenParameterHasNoneUntilItIsThawed) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({2}, 1), make_parameter({4}, 2)};
    parameters[1].set_requires_grad(false);
    GradientReducer reducer(parameters, {}, runtime);
    loss_of(parameters, {true, true}).backward();
    reducer.before_step();
    EXPECT_FALSE(parameters[1].grad().defined());
    parameters[1].set_requires_grad(true);
    reducer.before_zero_grad();
    loss_of(parameters, {true, true}).backward();
    EXPECT_THROW(loss_of(parameters, {false, true}).backward(), InvalidArgument);  // so its hook is there
    reducer.before_step();
    EXPECT_EQ(difference(parameters[1].grad(), at::full({4}, 2.0, at::kDouble)), 0.0);
  });
}

TEST(MissingGradients, ZeroedInPlaceIsAGradientOfZeros) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({2}, 1)};
    GradientReducer reducer(parameters, {}, runtime);
    parameters[0].mutable_grad() = at::zeros({2}, at::kDouble);
    if (runtime.topology().rank == 1) loss_of(parameters, {true}).backward();
    reducer.synchronize();
    EXPECT_EQ(difference(parameters[0].grad(), at::full({2}, 0.5, at::kDouble)), 0.0);
  });
}

TEST(GradientKinds, TiedWeightsAreReducedOnce) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor tied = make_parameter({3, 3}, 1);
    GradientReducer reducer({tied, tied}, {}, runtime);
    const at::Tensor input = at::full({1, 3}, 1.0 + runtime.topology().rank, at::kDouble);
    at::matmul(at::matmul(input, tied), tied).sum().backward();
    reducer.synchronize();
    const at::Tensor plain = make_parameter({3, 3}, 1);
    at::matmul(at::matmul(at::full({1, 3}, 1.5, at::kDouble), plain), plain).sum().backward();
    EXPECT_LT(difference(tied.grad(), plain.grad()), kExact);
  });
}

TEST(GradientKinds, SparseOnesBecomeDense) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor table = make_parameter({5, 2}, 1);
    GradientReducer reducer({table}, with_passes(2), runtime);
    const std::int64_t row = 2 * runtime.topology().rank;
    for (int pass = 0; pass < 2; ++pass) {
      at::embedding(table, at::tensor({row, row}, at::kLong), -1, false, true).sum().backward();
    }
    reducer.synchronize();
    ASSERT_EQ(table.grad().layout(), at::kStrided);
    const at::Tensor expected = at::zeros({5, 2}, at::kDouble);
    expected[0].fill_(1.0);
    expected[2].fill_(1.0);
    EXPECT_EQ(difference(table.grad(), expected), 0.0);
  });
}

TEST(GradientKinds, ChannelsLastKeepsItsStrides) {
  const at::Tensor images = at::arange(2 * 3 * 4 * 4, at::kDouble).reshape({2, 3, 4, 4}).sin();
  const at::Tensor plain = make_parameter({2, 3, 3, 3}, 1);
  at::conv2d(images, plain).square().sum().backward();
  run_on_one_host(2, [&](Runtime& runtime) {
    const bool last = runtime.topology().rank == 1;
    const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const at::Tensor weight =
        make_parameter({2, 3, 3, 3}, 1).detach().contiguous(format).requires_grad_(true);
    GradientReducer reducer({weight}, {}, runtime);
    at::conv2d(images, weight).square().sum().backward();
    reducer.synchronize();
    EXPECT_LT(difference(weight.grad(), plain.grad()), 1e-10);
    EXPECT_EQ(weight.grad().strides(), weight.strides());
  });
}

TEST(GradientKinds, SharedElementsAreCopiedFirst) {
  run_on_one_host(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({3}, 1);
    GradientReducer reducer({weight}, {}, runtime);
    weight.mutable_grad() = at::full({1}, 1.0 + runtime.topology().rank, at::kDouble).expand({3});
    reducer.synchronize();
    EXPECT_EQ(difference(weight.grad(), at::full({3}, 1.5, at::kDouble)), 0.0);
  });
}

TEST(GradientErrors, DifferentParametersAreToldOnEveryRank) {
  run_on_one_host(3, [](Runtime& runtime) {
    std::vector<at::Tensor> parameters{make_parameter({2}, 1), make_parameter({4}, 2)};
    if (runtime.topology().rank == 2) parameters.pop_back();
    try {
      GradientReducer reducer(parameters, {}, runtime);
      ADD_FAILURE() << "no exception";
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 2 has nothing more"));
      EXPECT_THAT(error.what(), testing::HasSubstr("ranks 0-1 have 'parameter.1' float64 [4]"));
    }
    EXPECT_THROW(GradientReducer(parameters, with_passes(1 + runtime.topology().rank), runtime), Mismatch);
    GradientReducer reducer({parameters[0]}, {}, runtime);
    loss_of({parameters[0]}, {true}).backward();
    reducer.synchronize();
  });
}

TEST(GradientErrors, AnUnequalTypeIsAMismatchAndTheNextStepWorks) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({2}, 1), make_parameter({4}, 2)};
    DistributedOptions options;
    options.named_parameters = {{"first", parameters[0]}, {"second", parameters[1]}};
    GradientReducer reducer(parameters, options, runtime);
    const at::Tensor other = at::ones({4}, runtime.topology().rank == 0 ? at::kDouble : at::kFloat);
    const_cast<at::Tensor&>(parameters[1]).mutable_grad() = other;
    try {
      reducer.synchronize();
      ADD_FAILURE() << "no exception";
    } catch (const Mismatch& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("gradient of parameter 'second'"));
    }
    parameters[1].mutable_grad().reset();
    loss_of(parameters, {true, true}).backward();
    reducer.before_step();
    EXPECT_EQ(difference(parameters[1].grad(), at::full({4}, 2.0, at::kDouble)), 0.0);
  });
}

TEST(GradientErrors, ALeavingRankDoesNotHangTheOthers) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> parameters{make_parameter({2}, 1)};
    GradientReducer reducer(parameters, {}, runtime);
    if (runtime.topology().rank == 1) return;
    loss_of(parameters, {true}).backward();
    EXPECT_THROW(reducer.synchronize(), Error);
  });
}

TEST(SeveralReducers, DoNotMeet) {
  run_on_one_host(2, [](Runtime& runtime) {
    const std::vector<at::Tensor> first{make_parameter({3}, 1)};
    const std::vector<at::Tensor> second{make_parameter({3}, 2)};
    GradientReducer first_reducer(first, {}, runtime);
    GradientReducer second_reducer(second, {}, runtime);
    ((first[0] * 2.0).sum() + (second[0] * 4.0 * runtime.topology().rank).sum()).backward();
    second_reducer.synchronize();
    first_reducer.synchronize();
    EXPECT_EQ(difference(first[0].grad(), at::full({3}, 2.0, at::kDouble)), 0.0);
    EXPECT_EQ(difference(second[0].grad(), at::full({3}, 2.0, at::kDouble)), 0.0);
    EXPECT_GT(first_reducer.wait_seconds(), 0.0);
  });
}

}  // namespace
}  // namespace rueda
