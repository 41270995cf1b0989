// SPDX-License-Identifier: Apache-2.0
// What a ShardedModel saves, and who may load it.
#include "frameworks/torch/sharding/state_dict.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/serialize.h>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/sharding/sharded_model.h"
#include "rueda/torch/state/checkpoint.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/training/layered_model.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using torch::optim::AdamWOptions;
using AdamModel = ShardedModel<FusedAdamW>;

// Purpose: a model and its ShardedModel.
struct Job {
  Job(bool share, Runtime& its, double lr = 0.02)
      : runtime(its), shards(model, {.units = model.units(), .share = share}, AdamWOptions(lr), runtime) {
    model.runner = shards.runner();
  }
  // The same rows however many ranks there are.
  double step(int number) {
    shards.zero_grad();
    const at::Tensor loss = shards.run([&] { return model.loss(make_batch(12 * number, 12)); });
    loss.backward();
    shards.step();
    return loss.item<double>();
  }
  std::vector<double> steps(int from, int to) {
    std::vector<double> losses;
    for (int number = from; number < to; ++number) losses.push_back(step(number));
    return losses;
  }

  Runtime& runtime;
  LayeredModel model;
  AdamModel shards;
};

std::vector<double> straight_losses() {
  std::vector<double> losses;
  run_ranks(1, [&](Runtime& runtime) {
    Job job(false, runtime);
    job.steps(0, 4);
    losses = job.steps(4, 8);
  });
  return losses;
}

auto near(const std::vector<double>& losses) {
  return testing::Pointwise(testing::DoubleNear(1e-12), losses);
}

TEST(ShardedState, GoesOnWithAnotherNumberOfRanks) {
  const std::vector<double> expected = straight_losses();
  const ScratchFolder folder;
  for (const auto& [saving, loading, share] :
       {std::tuple(1, 3, false), std::tuple(4, 2, true), std::tuple(3, 4, false), std::tuple(2, 1, true)}) {
    std::vector<std::string> files;
    for (int rank = 0; rank < saving; ++rank)
      files.push_back((folder.path() / fmt::format("{}-of-{}.pt", rank, saving)).string());
    run_on_one_host(saving, [&, share = share](Runtime& runtime) {
      Job job(!share, runtime);
      job.steps(0, 4);
      save_part(files[runtime.topology().rank], job.shards);
    });
    run_on_one_host(loading, [&, share = share](Runtime& runtime) {
      Job job(share, runtime, 7.0);
      job.shards.load_parts(files);
      EXPECT_THAT(job.steps(4, 8), near(expected));
    });
  }
}

TEST(ShardedState, IsGatheredByNamesAndScattered) {
  const std::vector<double> expected = straight_losses();
  for (const bool share : {false, true}) {
    run_on_one_host(3, [&](Runtime& runtime) {
      Job job(share, runtime), other(share, runtime, 7.0), third(!share, runtime, 7.0);
      job.steps(0, 4);
      const SavedModel saved = job.shards.state_dict(1);
      EXPECT_THAT(job.steps(4, 8), near(expected));
      if (runtime.topology().rank == 1) {
        ASSERT_EQ(saved.parameters.size(), 7U);
        for (const SavedParameter& parameter : saved.parameters) {
          const at::Tensor own = job.model.named_parameters()[parameter.name];
          EXPECT_EQ(parameter.value.sizes(), own.sizes());
          EXPECT_EQ(parameter.state.at("exp_avg").toTensor().numel(), own.numel());
          EXPECT_EQ(parameter.state.at("step").toInt(), 4);
        }
      } else {
        EXPECT_TRUE(saved.parameters.empty());
      }
      other.shards.load_state_dict(saved, 1);
      EXPECT_THAT(other.steps(4, 8), near(expected));
      // As a file, which every rank reads.
      torch::serialize::OutputArchive archive;
      write(archive, other.shards.state_dict(0));
      std::stringstream stream;
      archive.save_to(stream);
      std::string bytes = stream.str();
      std::vector<std::int64_t> size{static_cast<std::int64_t>(bytes.size())};
      broadcast_async("size", view(size), view(size), 0, runtime).wait();
      bytes.resize(static_cast<std::size_t>(size[0]));
      const TensorView all = view(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()));
      broadcast_async("file", all, all, 0, runtime).wait();
      std::stringstream file(bytes);
      torch::load(third.shards, file);
      EXPECT_EQ(third.step(8), other.step(8));
    });
  }
}

TEST(ShardedState, RefusesWhatDoesNotFit) {
  const ScratchFolder folder;
  run_on_one_host(2, [&](Runtime& runtime) {
    const int rank = runtime.topology().rank;
    Job job(false, runtime);
    job.step(0);
    std::stringstream own;
    torch::save(job.shards, own);
    torch::load(job.shards, own);  // its own part is enough
    const std::string first = (folder.path() / "0.pt").string(), missing = (folder.path() / "1.pt").string();
    if (rank == 0) save_part(first, job.shards);
    barrier_async(runtime).wait();
    EXPECT_THAT(words_of([&] { job.shards.load_parts({first}); }),
                HasSubstr(rank == 0 ? "rank 1 refuses it" : "Give the files of all ranks"));
    EXPECT_THAT(words_of([&] { job.shards.load_parts({rank == 0 ? first : missing}); }),
                HasSubstr(rank == 0 ? "rank 1 refuses it" : missing.c_str()));
    std::stringstream plain;
    torch::optim::Adam adam({at::zeros({2})}, torch::optim::AdamOptions(0.1));
    torch::save(adam, plain);
    EXPECT_THAT(words_of([&] { torch::load(job.shards, plain); }), HasSubstr("not of a ShardedModel"));
    SavedModel saved = job.shards.state_dict();
    if (rank == 0) saved.parameters.front().elements += 1;
    EXPECT_THAT(words_of([&] { job.shards.load_state_dict(saved); }),
                testing::AnyOf(HasSubstr("elements, and it has"), HasSubstr("refuses it")));
  });
}

}  // namespace
}  // namespace rueda
