// SPDX-License-Identifier: Apache-2.0
// The state of a ShardedOptimizer, saved by some ranks and taken by others; and in which steps ranks meet.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/training/scheduled_training.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using ShardedAdam = ShardedOptimizer<FusedAdamW>;

std::vector<at::Tensor> parameters_to_share() {
  return {make_parameter({70, 61}, 1, at::kFloat), make_parameter({61}, 2, at::kFloat),
          make_parameter({5000}, 3, at::kFloat), make_parameter({}, 4, at::kFloat)};
}

// Gradients that are the same on every rank, so that any number of ranks trains the same.
void train_shared(ShardedAdam& optimizer, const std::vector<at::Tensor>& model, int from, int to) {
  for (int step = from; step < to; ++step) {
    optimizer.zero_grad();
    for (std::size_t i = 0; i < model.size(); ++i) {
      const at::Tensor factors =
          make_parameter(model[i].sizes(), 10 * step + static_cast<int>(i), at::kFloat);
      (model[i] * factors.detach()).sum().backward();
    }
    optimizer.step();
  }
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& model) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& each : model) copies.push_back(each.detach().clone());
  return copies;
}

TEST(SavedState, OfAShardedOptimizerContinuesItOnAnotherNumberOfRanks) {
  std::vector<at::Tensor> straight, halfway;
  std::string bytes;
  run_on_one_host(2, [&](Runtime& runtime) {
    const std::vector<at::Tensor> model = parameters_to_share();
    ShardedAdam optimizer(model, torch::optim::AdamWOptions(0.1), {}, runtime);
    train_shared(optimizer, model, 0, 3);
    const SavedModel saved = optimizer.state_dict();
    EXPECT_EQ(saved.parameters.size(), runtime.topology().rank == 0 ? model.size() : 0);
    if (runtime.topology().rank == 0) {
      bytes = bytes_of(saved);
      halfway = copies_of(model);
    }
    train_shared(optimizer, model, 3, 6);
    if (runtime.topology().rank == 0) straight = copies_of(model);
  });
  for (const Rank ranks : {1, 2, 4}) {  // whose mean of equal gradients is exact
    run_on_one_host(ranks, [&](Runtime& runtime) {
      const at::NoGradGuard no_grad;
      std::vector<at::Tensor> model = copies_of(halfway);
      for (at::Tensor& each : model) each.requires_grad_(true);
      ShardedAdam optimizer(model, torch::optim::AdamWOptions(7.0), {}, runtime);
      optimizer.load_state_dict(saved_of(bytes));
      const at::AutoGradMode gradients_on(true);
      train_shared(optimizer, model, 3, 6);
      for (std::size_t i = 0; i < model.size(); ++i)
        EXPECT_TRUE(at::equal(model[i], straight[i])) << "parameter " << i << " of " << ranks << " ranks";
    });
  }
}

TEST(SavedState, ThatDoesNotFitIsRefused) {
  run_on_one_host(1, [](Runtime& runtime) {
    const std::vector<at::Tensor> model = parameters_to_share();
    ShardedAdam optimizer(model, torch::optim::AdamWOptions(0.1), {}, runtime);
    train_shared(optimizer, model, 0, 1);
    SavedModel lacking = optimizer.state_dict();
    lacking.parameters.pop_back();
    EXPECT_THAT(words_of([&] { optimizer.load_state_dict(lacking); }), HasSubstr("'parameter.3'"));
    SavedModel other = optimizer.state_dict();
    other.parameters[1].elements = other.parameters[1].end = 60;
    EXPECT_THAT(words_of([&] { optimizer.load_state_dict(other); }), HasSubstr("is of 60 elements"));
  });
}

// What is_sync_step() said before each of six steps, on rank 0; every rank says the same.
std::vector<bool> meetings_of(const SyncSchedule& schedule) {
  std::vector<bool> said;
  on_scheduled_ranks(schedule, [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
    if (rank == 0) said.clear();  // it runs twice: over a network, and in shared memory
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      model.loss(batch_of(rank, step)).backward();
      if (rank == 0) said.push_back(optimizer.is_sync_step());
      optimizer.step();
    }
    optimizer.flush();
  });
  return said;
}

TEST(Schedule, SaysInWhichStepsRanksMeet) {
  EXPECT_THAT(meetings_of(SyncSchedule::every_step()), ElementsAre(true, true, true, true, true, true));
  EXPECT_THAT(meetings_of(SyncSchedule::one_step_late()), ElementsAre(true, true, true, true, true, true));
  EXPECT_THAT(meetings_of(SyncSchedule::accumulate(3)), ElementsAre(false, false, true, false, false, true));
  EXPECT_THAT(meetings_of(SyncSchedule::local_sgd(2)), ElementsAre(false, true, false, true, false, true));
}

}  // namespace
}  // namespace rueda
