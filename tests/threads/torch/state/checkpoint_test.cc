// SPDX-License-Identifier: Apache-2.0
// Files of a whole job's state, on ranks that are threads.
#include "rueda/torch/state/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/script.h>
#include <torch/serialize.h>

#include "core/base/files/safetensors.h"
#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "rueda/torch/state/saved_model.h"
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
    const void* address = model->weight.data_ptr();
    at::Tensor step;
    load(path, {{"model", model}, {"optimizer", optimizer}, {"step", step}}, runtime);
    EXPECT_EQ(step.item<int>(), 3);
    EXPECT_EQ(model->weight.data_ptr(), address);
    train(model, optimizer, 2);
    EXPECT_EQ(difference(model->weight, reference->weight), 0.0);
    EXPECT_EQ(difference(model->bias, reference->bias), 0.0);
    fill(model, 9);
    load(path, {{"model", model}}, runtime);  // some of it
    EXPECT_NE(model->bias[0].item<float>(), 9.0F);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Checkpoints, testing::Values(1, 2, 3));

TEST(Checkpoint, OneThingIsAFileThatAnyProgramReads) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "model.safetensors";
  run_ranks(2, [&](Runtime& runtime) {
    Linear model(2, 3);
    fill(model, 3.0 + runtime.topology().rank);
    save(path, model, runtime);
  });
  const std::string bytes = content_of(path);
  std::vector<std::string> names;
  for (const SafetensorEntry& entry : parse_safetensors(path, std::as_bytes(std::span(bytes))).entries) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.dtype, "F32");
    EXPECT_EQ(reinterpret_cast<const float*>(entry.data.data())[0], 3.0F);
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("weight", "bias"));
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

TEST(Checkpoint, ALinkUnderAnUnfinishedNameIsNotFollowed) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "model.pt";
  const std::string precious = folder.write("precious", "keep me");
  std::filesystem::create_symlink(precious, path + ".partial");  // as another user of the folder could
  run_ranks(2, [&](Runtime& runtime) {
    at::Tensor tensor = at::ones({2});
    save(path, tensor, runtime);
  });
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  EXPECT_EQ(content_of(precious), "keep me");
}

// An archive of LibTorch whose program writes the file `target` while it is loaded.
void write_attack(const std::string& path, const std::string& target) {
  torch::jit::Module module("Attack");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(fmt::format(R"(
def __getstate__(self):
    return (1, self.training)

def __setstate__(self, state: Tuple[int, bool]):
    torch.save(state[0], "{}")
    self.training = state[1]
)",
                            target));
  module.save(path);
}

TEST(Checkpoint, AnArchiveThatRunsCodeIsRefused) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "optimizer.pt", target = folder.path() / "target";
  write_attack(path, target);
  RankWords refused, refused_of_several;
  run_ranks(2, [&](Runtime& runtime) {
    Linear model(2, 2);
    AdamW optimizer(model->parameters(), AdamWOptions(1e-2));
    refused.of([&] { load(path, optimizer, runtime); });
    refused_of_several.of([&] { load(path, {{"optimizer", optimizer}}, runtime); });
    EXPECT_THAT(error_message([&] { load_part(path, optimizer); }), HasSubstr("load it with allow_code"));
    EXPECT_THAT(error_message([&] { saved_of(content_of(path)); }), HasSubstr("load it with allow_code"));
  });
  for (const std::string& words : {refused.common(2), refused_of_several.common(2)}) {
    EXPECT_THAT(words, AllOf(HasSubstr("load '" + path + "': ranks 0-1: this is an archive of torch::save"),
                             HasSubstr("can run code"), HasSubstr("load it with allow_code")));
  }
  EXPECT_FALSE(std::filesystem::exists(target));
  at::Tensor tensor;  // what the archive does where it is let
  EXPECT_THAT(error_message([&] { from_bytes(content_of(path), tensor, {.allow_code = true}); }),
              HasSubstr("0"));
  EXPECT_TRUE(std::filesystem::exists(target));
}

TEST(Checkpoint, ArchivesOfTorchSaveAreLoadedWhereCodeIsAllowed) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "old.pt", part = folder.path() / "part.pt";
  torch::save(at::full({2}, 7), path);
  Linear trained(4, 2);
  fill(trained, 0.5);
  AdamW old(trained->parameters(), AdamWOptions(0.25));
  train(trained, old, 2);
  torch::save(old, part);
  run_ranks(2, [&](Runtime& runtime) {
    at::Tensor tensor;
    load(path, tensor, runtime, {.allow_code = true});
    EXPECT_TRUE(at::equal(tensor, at::full({2}, 7)));
    Linear model(4, 2);
    AdamW optimizer(model->parameters(), AdamWOptions(0.5));
    load_part(part, optimizer, {.allow_code = true});
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.25);
    EXPECT_EQ(optimizer.state().size(), 2U);
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
  EXPECT_THAT(missing.common(3), AllOf(HasSubstr("save: rank 0: cannot write"), HasSubstr("nowhere"),
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
