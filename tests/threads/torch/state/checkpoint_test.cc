// SPDX-License-Identifier: Apache-2.0
// Files of a whole job's state, on ranks that are threads.
#include "rueda/torch/state/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/rank_words.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using torch::nn::Linear;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;

void fill(Linear& model, double value) {
  for (at::Tensor& parameter : model->parameters()) parameter.detach().fill_(value);
}

void train(Linear& model, AdamW& optimizer, int steps) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const Batch batch = make_batch(step, 4, at::kFloat);
    at::mse_loss(model(batch.inputs), batch.targets).backward();
    optimizer.step();
  }
}

class Checkpoints : public testing::TestWithParam<Rank> {};

TEST_P(Checkpoints, ContinueOnEveryRank) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "training.pt";
  Linear reference(4, 2);
  fill(reference, 0.5);
  AdamW plain(reference->parameters(), AdamWOptions(1e-2));
  train(reference, plain, 3);
  run_ranks(GetParam(), [&](Runtime& runtime) {
    Linear model(4, 2);
    fill(model, 0.5);
    AdamW optimizer(model->parameters(), AdamWOptions(1e-2));
    train(model, optimizer, 3);
    at::Tensor step = at::tensor(3);
    save(path, {{"model", model}, {"optimizer", optimizer}, {"step", step}}, runtime);
    EXPECT_TRUE(std::filesystem::exists(path));
  });
  train(reference, plain, 2);
  run_ranks(GetParam(), [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    Linear model(4, 2);
    fill(model, rank);
    AdamW optimizer(model->parameters(), AdamWOptions(5.0));
    if (rank == 1) train(model, optimizer, 1);
    const void* place = model->weight.data_ptr();
    at::Tensor step;
    load(path, {{"model", model}, {"optimizer", optimizer}, {"step", step}}, runtime);
    EXPECT_EQ(step.item<int>(), 3);
    EXPECT_EQ(model->weight.data_ptr(), place);
    train(model, optimizer, 2);
    EXPECT_EQ(difference(model->weight, reference->weight), 0.0);
    EXPECT_EQ(difference(model->bias, reference->bias), 0.0);
    fill(model, 9);
    load(path, {{"model", model}}, runtime);  // some of it
    EXPECT_NE(model->bias[0].item<float>(), 9.0F);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Checkpoints, testing::Values(1, 2, 3));

TEST(Checkpoint, OneThingIsAFileOfLibTorch) {
  const ScratchFolder folder;
  const std::string ours = folder.path() / "ours.pt", theirs = folder.path() / "theirs.pt";
  run_ranks(2, [&](Runtime& runtime) {
    Linear model(2, 2), other(2, 2);
    fill(model, 3.0 + runtime.topology().rank);
    save(ours, model, runtime);
    torch::load(other, ours);
    EXPECT_EQ(other->bias[0].item<float>(), 3.0F);
    barrier(runtime);
    if (runtime.topology().rank == 0) torch::save(at::full({2}, 7), theirs);
    at::Tensor tensor = at::zeros({5});
    load(theirs, tensor, runtime);
    EXPECT_TRUE(at::equal(tensor, at::full({2}, 7)));
  });
}

TEST(Checkpoint, OfAProcessSet) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "set.pt";
  run_ranks(3, [&](Runtime& runtime) {
    const ProcessSet set = add_process_set(RankSet(1, 3), runtime);
    at::Tensor tensor = at::full({1}, runtime.topology().rank);
    if (!set.included()) {
      EXPECT_THAT(error_message([&] { save(path, tensor, set); }), HasSubstr("this rank is none"));
      return;
    }
    save(path, tensor, set);
    load(path, tensor, set);
    EXPECT_EQ(tensor.item<int>(), 1);  // of the first member
  });
}

struct UnsavableImpl : torch::nn::Module {
  void save(torch::serialize::OutputArchive&) const override { throw std::runtime_error("no ink"); }
};

TEST(Checkpoint, WhatCannotBeWrittenIsToldOnEveryRankAndChangesNothing) {
  const ScratchFolder folder;
  const std::string path = folder.write("old.pt", "old");
  RankWords missing, unsavable;
  run_ranks(3, [&](Runtime& runtime) {
    at::Tensor tensor = at::ones({2});
    missing.of([&] { save(folder.path() / "nowhere" / "model.pt", tensor, runtime); });
    UnsavableImpl module;
    unsavable.of([&] { save(path, {{"tensor", tensor}, {"module", module}}, runtime); });
    EXPECT_THROW(save(path + std::to_string(runtime.topology().rank), tensor, runtime), Mismatch);
  });
  EXPECT_THAT(missing.common(3), AllOf(HasSubstr("save: rank 0: cannot open"), HasSubstr("nowhere"),
                                       HasSubstr("No such file or directory")));
  EXPECT_THAT(unsavable.common(3), HasSubstr("rank 0: no ink"));
  EXPECT_EQ(std::filesystem::file_size(path), 3U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()),
                          std::filesystem::directory_iterator()),
            1);  // nothing is left over
}

TEST(Checkpoint, WhatCannotBeReadOrDoesNotFitIsToldOnEveryRank) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "model.pt";
  folder.write("text.pt", "no archive");
  RankWords missing, text, key, shape;
  run_ranks(3, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    Linear model(2, 2), wider(2, rank == 1 ? 3 : 2);
    save(path, {{"model", model}}, runtime);
    missing.of([&] { load(folder.path() / "none.pt", model, runtime); });
    text.of([&] { load(folder.path() / "text.pt", model, runtime); });
    key.of([&] { load(path, {{"model", model}, {"optimizer", model}}, runtime); });
    shape.of([&] { load(path, {{"model", wider}}, runtime); });
    load(path, {{"model", model}}, runtime);
  });
  EXPECT_THAT(missing.common(3), AllOf(HasSubstr("none.pt"), HasSubstr("rank 0: cannot open")));
  EXPECT_THAT(text.common(3), HasSubstr("text.pt': ranks 0-2: "));
  EXPECT_THAT(key.common(3), HasSubstr("there is no 'optimizer' in the file"));
  EXPECT_THAT(shape.common(3),
              HasSubstr("rank 1: 'model': 'weight' has the shape [3, 2], and [2, 2] in what"));
}

TEST(Checkpoint, AShardedOptimizerIsRefused) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "sharded.pt";
  run_on_one_host(2, [&](Runtime& runtime) {
    Linear model(2, 2);
    ShardedOptimizer<torch::optim::SGD> optimizer(model->parameters(), torch::optim::SGDOptions(0.1), {},
                                                  runtime);
    EXPECT_THAT(error_message([&] {
                  save(path, {{"model", model}, {"optimizer", optimizer}}, runtime);
                }),
                HasSubstr("has a part of its own"));
    fill(model, 2);  // the same on both ranks
    barrier(runtime);
    save(path, model, runtime);
    fill(model, 3);
    barrier(runtime);
    load(path, model, runtime);
    EXPECT_EQ(model->bias[1].item<float>(), 2.0F);
    optimizer.zero_grad();
    model(at::ones({1, 2})).sum().backward();
    optimizer.step();  // its memory is still the ranks' one copy
    EXPECT_NEAR(model->bias[1].item<float>(), 1.9F, 1e-6);
  });
}

}  // namespace
}  // namespace rueda
