// SPDX-License-Identifier: Apache-2.0
// SyncBatchNorm on ranks that are threads, against BatchNorm of the whole batch on one.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <numeric>
#include <sstream>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/nn/sync_batch_norm.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/rank_words.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using torch::nn::BatchNorm1d;
using torch::nn::BatchNormOptions;

constexpr std::int64_t kFeatures = 3;

struct Case {
  std::vector<std::int64_t> rows;  // of each rank
  std::vector<std::int64_t> rest;  // dimensions behind the channels
  bool affine = true;
};

// Rows [first, first + count) of the whole batch, with a gradient.
at::Tensor rows_of(std::int64_t first, std::int64_t count, std::vector<std::int64_t> rest,
                   at::ScalarType type = at::kDouble) {
  std::vector<std::int64_t> shape{first + count, kFeatures};
  shape.insert(shape.end(), rest.begin(), rest.end());
  const at::Tensor all = make_parameter(shape, 0).detach() + 3.0;
  return all.narrow(0, first, count).to(type).clone().requires_grad_(true);
}

// A function of the outputs whose gradients differ in every element, and whose parts add up.
at::Tensor loss_of(const at::Tensor& outputs, std::int64_t first) {
  const at::Tensor index = at::arange(outputs.numel(), at::kDouble) +
                           double(first) * (outputs.numel() / std::max<std::int64_t>(outputs.size(0), 1));
  return (outputs.to(at::kDouble).flatten() * (index * 0.7).cos()).sum() +
         outputs.to(at::kDouble).pow(3).sum();
}

void set_affine(torch::nn::Module& module) {
  int seed = 3;
  for (at::Tensor& parameter : module.parameters())
    parameter.set_data(make_parameter(parameter.sizes(), seed++).detach() + 0.5);
}

class SyncBatchNorms : public testing::TestWithParam<Case> {};

TEST_P(SyncBatchNorms, EqualBatchNormOfTheWholeBatch) {
  const auto& [rows, rest, affine] = GetParam();
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const at::Tensor inputs = rows_of(0, total, rest);
  BatchNorm1d whole(BatchNormOptions(kFeatures).eps(1e-3).momentum(0.3).affine(affine));
  whole->to(at::kDouble);
  set_affine(*whole);
  const at::Tensor outputs = at::batch_norm(inputs, whole->weight, whole->bias, whole->running_mean,
                                            whole->running_var, true, 0.3, 1e-3, false);
  loss_of(outputs, 0).backward();

  run_ranks(static_cast<Rank>(rows.size()), [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const std::int64_t first = std::accumulate(rows.begin(), rows.begin() + rank, std::int64_t{0});
    SyncBatchNorm norm(BatchNormOptions(kFeatures).eps(1e-3).momentum(0.3).affine(affine), runtime);
    norm->to(at::kDouble);
    set_affine(*norm);
    const at::Tensor own = rows_of(first, rows[rank], rest);
    const at::Tensor result = norm(own);
    EXPECT_LT(difference(result, outputs.narrow(0, first, rows[rank])), 1e-12);
    loss_of(result, first).backward();
    EXPECT_LT(difference(own.grad(), inputs.grad().narrow(0, first, rows[rank])), 1e-12);
    EXPECT_LT(difference(norm->running_mean, whole->running_mean), 1e-12);
    EXPECT_LT(difference(norm->running_var, whole->running_var), 1e-12);
    EXPECT_EQ(norm->num_batches_tracked.item<int>(), 1);
    const at::Tensor means = allgather(norm->running_mean.unsqueeze(0), "means", runtime);
    EXPECT_EQ(difference(means, norm->running_mean.expand_as(means)), 0.0);  // the same bits
    if (!affine) return;
    const Reduction sum{ReduceOp::sum};
    EXPECT_LT(difference(allreduce(norm->weight.grad(), "weight", sum, runtime), whole->weight.grad()),
              1e-11);
    EXPECT_LT(difference(allreduce(norm->bias.grad(), "bias", sum, runtime), whole->bias.grad()), 1e-11);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, SyncBatchNorms,
                         testing::Values(Case{{5}, {}}, Case{{4, 4}, {}}, Case{{1, 6}, {}},
                                         Case{{3, 0, 4}, {}}, Case{{0, 5}, {2}}, Case{{2, 3}, {4}},
                                         Case{{1, 0, 1}, {2, 3}}, Case{{2, 1}, {2, 2, 2}},
                                         Case{{1, 1}, {}, false}));

// Layers in a row and beside one another, each used twice in a pass, over several steps.
template <class Norm>
at::Tensor of_several(Norm& a, Norm& b, const at::Tensor& inputs) {
  const at::Tensor first = a(inputs).tanh();
  return a(b(first * 2) + b(inputs).sin());
}

TEST(SyncBatchNorm, SeveralLayersUsedSeveralTimes) {
  constexpr std::int64_t kRows = 4;
  BatchNorm1d whole_a(kFeatures), whole_b(kFeatures);
  std::vector<at::Tensor> gradients;
  whole_a->to(at::kDouble);
  whole_b->to(at::kDouble);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor inputs = rows_of(step, 2 * kRows, {});
    loss_of(of_several(whole_a, whole_b, inputs), 0).backward();
    gradients.push_back(inputs.grad());
  }
  run_ranks(2, [&](Runtime& runtime) {
    const std::int64_t first = runtime.topology().rank * kRows;
    SyncBatchNorm a(kFeatures, runtime), b(kFeatures, runtime);
    a->to(at::kDouble);
    b->to(at::kDouble);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor inputs = rows_of(step + first, kRows, {});
      loss_of(of_several(a, b, inputs), first).backward();
      EXPECT_LT(difference(inputs.grad(), gradients[step].narrow(0, first, kRows)), 1e-11) << step;
    }
    EXPECT_LT(difference(a->running_var, whole_a->running_var), 1e-12);
    EXPECT_LT(difference(b->running_mean, whole_b->running_mean), 1e-12);
  });
}

TEST(SyncBatchNorm, TrainsWithADistributedOptimizerAsOneProcess) {
  constexpr std::int64_t kRows = 4;
  using torch::optim::SGD;
  const auto train = [](auto& norm, auto& optimizer, std::int64_t first, std::int64_t rows) {
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const Batch batch = make_batch(first + 100 * step, rows);
      at::mse_loss(norm(batch.inputs), batch.inputs.sin()).backward();
      optimizer.step();
    }
  };
  BatchNorm1d whole(4);
  whole->to(at::kDouble);
  SGD plain(whole->parameters(), torch::optim::SGDOptions(0.5));
  train(whole, plain, 0, 3 * kRows);
  run_ranks(3, [&](Runtime& runtime) {
    SyncBatchNorm norm(4, runtime);
    norm->to(at::kDouble);
    DistributedOptimizer<SGD> optimizer(norm->parameters(), torch::optim::SGDOptions(0.5), {}, runtime);
    train(norm, optimizer, runtime.topology().rank * kRows, kRows);
    EXPECT_LT(difference(norm->weight, whole->weight), 1e-12);
    EXPECT_LT(difference(norm->bias, whole->bias), 1e-12);
  });
}

TEST(SyncBatchNorm, KeepsTheVarianceOfLargeValues) {
  constexpr double kOffset = 1e8;
  const at::Tensor noise = make_parameter({8, kFeatures}, 5).detach();
  const at::Tensor values = noise + kOffset;
  run_ranks(2, [&](Runtime& runtime) {
    SyncBatchNorm norm(BatchNormOptions(kFeatures).momentum(std::nullopt), runtime);
    norm->to(at::kDouble);
    norm(values.narrow(0, 4 * runtime.topology().rank, 4));
    EXPECT_LT(difference(norm->running_var, (values - kOffset).var(0)),
              1e-7);  // of squares: 1e16 and its last bits
  });
}

TEST(SyncBatchNorm, NarrowTypesAndOtherStrides) {
  const at::Tensor inputs = rows_of(0, 6, {2});
  const at::Tensor expected = at::batch_norm(inputs, {}, {}, {}, {}, true, 0.1, 1e-5, false);
  run_ranks(2, [&](Runtime& runtime) {
    const std::int64_t first = 3 * runtime.topology().rank;
    SyncBatchNorm norm(kFeatures, runtime);
    for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-5}, std::pair{at::kBFloat16, 0.05}}) {
      const at::Tensor own = rows_of(first, 3, {2})
                                 .detach()
                                 .transpose(0, 2)
                                 .contiguous()
                                 .transpose(0, 2)
                                 .to(type)
                                 .requires_grad_();
      const at::Tensor outputs = norm(own);
      EXPECT_EQ(outputs.scalar_type(), type);
      EXPECT_LT(difference(outputs, expected.narrow(0, first, 3)), tolerance);
      outputs.pow(2).sum().backward();
      EXPECT_EQ(own.grad().scalar_type(), type);
      EXPECT_EQ(norm->weight.grad().scalar_type(), at::kFloat);
    }
  });
}

TEST(SyncBatchNorm, EvaluatesAloneByItsRunningStatistics) {
  run_ranks(2, [](Runtime& runtime) {
    SyncBatchNorm norm(kFeatures, runtime);
    norm(rows_of(runtime.topology().rank, 4, {}, at::kFloat));
    norm->eval();
    if (runtime.topology().rank == 1) return;
    const at::Tensor one = rows_of(7, 1, {}, at::kFloat);
    const at::Tensor expected = (one - norm->running_mean) / (norm->running_var + 1e-5).sqrt();
    EXPECT_LT(difference(norm(one), expected), 1e-5);
    EXPECT_EQ(norm->num_batches_tracked.item<int>(), 1);
  });
}

TEST(SyncBatchNorm, AProcessSetNormalisesByItsOwnBatch) {
  const at::Tensor expected = at::batch_norm(rows_of(0, 4, {}), {}, {}, {}, {}, true, 0.1, 1e-5, false);
  run_ranks(3, [&](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(1, 3), runtime);
    if (!set.included()) {
      EXPECT_THAT(error_message([&] { SyncBatchNorm(kFeatures, set); }), HasSubstr("this rank is none"));
      return;
    }
    SyncBatchNorm norm(kFeatures, set);
    norm->to(at::kDouble);
    const at::Tensor own = rows_of(2 * set.rank(), 2, {});
    EXPECT_LT(difference(norm(own), expected.narrow(0, 2 * set.rank(), 2)), 1e-12);
  });
}

TEST(SyncBatchNorm, WhatOneRankCannotNormaliseIsToldOnAll) {
  RankWords shape, few;
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    SyncBatchNorm norm(kFeatures, runtime);
    shape.of([&] { norm(at::ones({2, rank == 1 ? 5 : kFeatures})); });
    few.of([&] { norm(at::ones({rank == 1 ? 1 : 0, kFeatures})); });
    EXPECT_EQ(norm->num_batches_tracked.item<int>(), 0);
    EXPECT_EQ(norm(at::ones({1, kFeatures})).size(0), 1);
    SyncBatchNorm other(2 + rank, runtime);
    EXPECT_THROW(other(at::ones({2, 2 + rank})), Mismatch);
    const at::Tensor inputs = rows_of(0, 2, {}, at::kFloat);
    const at::Tensor loss = norm(inputs).sum();
    EXPECT_THAT(error_message([&] { loss.backward({}, std::nullopt, true); }), HasSubstr("no second"));
  });
  EXPECT_THAT(shape.common(3), HasSubstr("rank 1: the input has the shape [2, 5]; it must be (N, 3, ...)"));
  EXPECT_THAT(few.common(3), HasSubstr("all ranks together have 1 values a channel"));
}

// Layers below layers: a Sequential cannot hold another.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const BatchNorm1d& norm)
      : layers(register_module("layers", torch::nn::Sequential(torch::nn::Linear(3, 3), norm))) {}
  at::Tensor forward(const at::Tensor& input) { return layers->forward(input); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Block);

struct HolderImpl : torch::nn::Module {
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(2));
  torch::nn::Sequential layers = register_module("layers", torch::nn::Sequential(torch::nn::BatchNorm2d(2)));
};

TEST(ConvertSyncBatchNorm, ReplacesWhatSequentialsHoldAndKeepsTheParameters) {
  BatchNorm1d whole(kFeatures);
  const at::Tensor expected = whole(rows_of(0, 4, {}, at::kFloat));
  run_ranks(2, [&](Runtime& runtime) {
    const std::int64_t first = 2 * runtime.topology().rank;
    BatchNorm1d norm(BatchNormOptions(kFeatures).eps(1e-5));
    norm->running_mean.zero_();
    BatchNorm1d evaluating(kFeatures);
    evaluating->eval();
    torch::nn::Sequential model(norm, Block(evaluating));
    const std::vector<at::Tensor> parameters = model->parameters();
    EXPECT_EQ(convert_sync_batch_norm(*model, runtime), 2);
    EXPECT_EQ(convert_sync_batch_norm(*model, runtime), 0);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(model->parameters()[i].is_same(parameters[i]));  // optimizers go on with them
    auto& made = model->at<SyncBatchNormImpl>(0);
    EXPECT_EQ(model->named_children()["0"].get(), &made);
    EXPECT_LT(difference(made.forward(rows_of(first, 2, {}, at::kFloat)), expected.narrow(0, first, 2)),
              1e-6);
    EXPECT_LT(difference(norm->running_mean, whole->running_mean), 1e-6);  // the same memory
    EXPECT_FALSE(model->at<BlockImpl>(1).layers->at<SyncBatchNormImpl>(1).is_training());
    model->forward(rows_of(first, 2, {}, at::kFloat)).sum().backward();
    std::ostringstream text;
    text << made;
    EXPECT_THAT(text.str(), HasSubstr("rueda::SyncBatchNorm(3, eps=1e-05"));
    const auto copy = std::dynamic_pointer_cast<SyncBatchNormImpl>(made.clone());
    EXPECT_EQ(difference(copy->running_var, made.running_var), 0.0);
    EXPECT_FALSE(copy->weight.is_same(made.weight));
  });
}

TEST(ConvertSyncBatchNorm, NamesWhatItCannotReplaceAndReplacesNothing) {
  run_ranks(1, [](Runtime& runtime) {
    HolderImpl holder;
    EXPECT_THAT(error_message([&] { convert_sync_batch_norm(holder, runtime); }),
                AllOf(HasSubstr("cannot replace norm:"), HasSubstr("rueda::SyncBatchNorm")));
    EXPECT_NE(holder.layers[0]->as<torch::nn::BatchNorm2d>(), nullptr);
    torch::nn::BatchNorm3d alone(2);
    EXPECT_THAT(error_message([&] { convert_sync_batch_norm(*alone, runtime); }),
                HasSubstr("the module itself"));
  });
}

}  // namespace
}  // namespace rueda
