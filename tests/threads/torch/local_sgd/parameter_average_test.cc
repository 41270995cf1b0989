// SPDX-License-Identifier: Apache-2.0
// Ranks that step by themselves and average their parameters: against the same arithmetic on one rank.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/training/scheduled_training.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

namespace optim = torch::optim;

// Ranks that step by themselves, by plain optimizers in one thread.
struct LocalRanks {
  LocalRanks() {
    for (Rank rank = 0; rank < kScheduledRanks; ++rank) {
      models.emplace_back();
      optimizers.push_back(std::make_unique<optim::SGD>(models.back().tensors(), scheduled_sgd()));
    }
  }
  void step_all(int index) {
    for (Rank rank = 0; rank < kScheduledRanks; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      train_step(*optimizers[i], models[i], rank, index);
    }
  }
  std::vector<at::Tensor> mean() const {
    std::vector<at::Tensor> sums = values_of(models[0]);
    for (std::size_t rank = 1; rank < kScheduledRanks; ++rank) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += models[rank][i].detach();
    }
    for (at::Tensor& sum : sums) sum /= kScheduledRanks;
    return sums;
  }
  void set_all(const std::vector<at::Tensor>& values) {
    const at::NoGradGuard no_grad;
    for (Regression& model : models) {
      for (std::size_t i = 0; i < values.size(); ++i) model[i].copy_(values[i]);
    }
  }
  std::vector<Regression> models;
  std::vector<std::unique_ptr<optim::SGD>> optimizers;
};

TEST(ParameterAverage, LocalSgdAveragesParameters) {
  constexpr int kApart = 3, kSteps = 7;
  LocalRanks local;
  for (int i = 0; i < kSteps; ++i) {
    local.step_all(i);
    if (i % kApart == kApart - 1) local.set_all(local.mean());
  }
  const std::vector<at::Tensor> flushed = local.mean();
  on_scheduled_ranks(SyncSchedule::local_sgd(kApart),
                     [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
                       for (int i = 0; i < kSteps; ++i) train_step(optimizer, model, rank, i);
                       expect_near(model, values_of(local.models[static_cast<std::size_t>(rank)]));
                       optimizer.flush();
                       expect_near(model, flushed);
                     });
}

TEST(ParameterAverage, LocalStepsAverageOverPasses) {
  LocalRanks local;
  for (Rank rank = 0; rank < kScheduledRanks; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    local.models[i].loss(make_batch(2 * kScheduledRows * rank, 2 * kScheduledRows)).backward();
    local.optimizers[i]->step();
  }
  run_ranks(kScheduledRanks, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const Regression model;
    DistributedSgd optimizer(model.tensors(), scheduled_sgd(),
                             {.backward_passes_per_step = 2, .schedule = SyncSchedule::local_sgd(1)},
                             runtime);
    for (int pass = 0; pass < 2; ++pass)
      model.loss(make_batch(kScheduledRows * (2 * rank + pass), kScheduledRows)).backward();
    optimizer.step();
    expect_near(model, local.mean());
  });
}

TEST(ParameterAverage, RanksThatDifferAtTheBeginningGetTheFirstOnes) {
  run_ranks(kScheduledRanks, [&](Runtime& runtime) {
    const Regression model(1 + runtime.topology().rank);
    const DistributedSgd optimizer(model.tensors(), scheduled_sgd(), {.schedule = SyncSchedule::local_sgd(4)},
                                   runtime);
    expect_near(model, values_of(Regression(1)), 1e-300);
  });
}

TEST(ParameterAverage, DilocoStepsAnOuterSgd) {
  constexpr int kApart = 2, kSteps = 8;
  LocalRanks local;
  Regression outer;
  optim::SGD outer_sgd(outer.tensors(), optim::SGDOptions(0.7).momentum(0.9).nesterov(true));
  for (int i = 0; i < kSteps; ++i) {
    local.step_all(i);
    if (i % kApart != kApart - 1) continue;
    const std::vector<at::Tensor> mean = local.mean();
    for (std::size_t k = 0; k < mean.size(); ++k) outer[k].mutable_grad() = outer[k].detach() - mean[k];
    outer_sgd.step();
    local.set_all(values_of(outer));
  }
  on_scheduled_ranks(SyncSchedule::diloco(kApart),
                     [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
                       for (int i = 0; i < kSteps; ++i) train_step(optimizer, model, rank, i);
                       expect_near(model, values_of(outer));
                     });
}

// Two ranks that go by a and b are |a - b| / |a + b| apart, as a part of the way of their mean.
TEST(ParameterAverage, AdaptiveFollowsTheDrift) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor weight = make_parameter({10}, 1);
    DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(0.1),
                             {.schedule = SyncSchedule::adaptive(0.25, 8)}, runtime);
    const auto steps = [&](double mine, double other) {
      const std::int64_t interval = optimizer.sync_interval();
      for (std::int64_t i = 0; i < interval; ++i) step_by(optimizer, weight, rank == 0 ? mine : other);
      EXPECT_NEAR(optimizer.drift(), std::abs(mine - other) / std::abs(mine + other), 1e-9);
      return optimizer.sync_interval();
    };
    EXPECT_EQ(optimizer.sync_interval(), 1);
    EXPECT_EQ(steps(1.0, 1.0), 2);  // no drift: doubled
    EXPECT_EQ(steps(1.0, 1.0), 4);
    EXPECT_EQ(steps(1.0, 2.0 / 3.0), 5);  // a drift of 0.2: 1.25 times as long
    EXPECT_EQ(steps(1.0, 1.0), 8);        // the most
    EXPECT_EQ(steps(1.0, 1.0 / 3.0), 4);  // a drift of 0.5: half as long
    EXPECT_EQ(steps(1.0, -0.99), 2);      // at most halved
    EXPECT_EQ(steps(1.0, -0.99), 1);
    EXPECT_EQ(steps(1.0, -0.99), 1);
  });
}

// The way of the average becomes as long as those of the ranks, but no longer than allowed.
TEST(ParameterAverage, AdaptiveStretchesWhatNoiseHasShortened) {
  struct Case {
    double mine, other, most_stretch, way;
  };
  for (const auto& [mine, other, most_stretch, way] :
       {Case{1.0, 0.0, 1.5, std::sqrt(0.5)},                                  // nothing in common
        Case{1.0, 1.0, 1.5, 1.0},                                             // all in common
        Case{1.0, 0.0, 1.25, 1.25 * 0.5}, Case{1.0, -1.5, 1.5, 1.5 * -0.25},  // opposed
        Case{1.0, 0.0, 1.0, 0.5}}) {
    run_ranks(2, [&](Runtime& runtime) {
      const at::Tensor weight = make_parameter({10}, 1);
      const at::Tensor begin = weight.detach().clone();
      DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(1.0),
                               {.schedule = SyncSchedule::adaptive(1.0, 8, most_stretch)}, runtime);
      step_by(optimizer, weight, runtime.topology().rank == 0 ? mine : other);
      EXPECT_LT((weight - (begin - way)).abs().max().item<double>(), 1e-9) << mine << " and " << other;
    });
  }
}

// Nothing that moved says nothing; what is not finite must not part the ranks.
TEST(ParameterAverage, AdaptiveKeepsItsIntervalWhereTheDriftIsNoNumber) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({10}, 1);
    DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(0.1),
                             {.schedule = SyncSchedule::adaptive()}, runtime);
    for (int i = 0; i < 3; ++i) step_by(optimizer, weight, 1.0);  // together: 1, 2, 4
    ASSERT_EQ(optimizer.sync_interval(), 4);
    for (int i = 0; i < 4; ++i) step_by(optimizer, weight, 0.0);
    EXPECT_EQ(optimizer.sync_interval(), 4);
    for (int i = 0; i < 4; ++i) step_by(optimizer, weight, runtime.topology().rank == 0 ? INFINITY : 1.0);
    EXPECT_EQ(optimizer.sync_interval(), 4);
  });
}

TEST(ParameterAverage, DilocoIsResumedExactly) {
  constexpr int kSteps = 8;
  std::vector<at::Tensor> straight;
  std::mutex mutex;
  const SyncSchedule schedule = SyncSchedule::diloco(2);
  on_scheduled_ranks(schedule, [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
    for (int i = 0; i < kSteps; ++i) train_step(optimizer, model, rank, i);
    std::lock_guard lock(mutex);
    straight = values_of(model);
  });
  run_ranks(kScheduledRanks, [&](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    Regression model;
    std::stringstream stream;
    {
      DistributedSgd optimizer(model.tensors(), scheduled_sgd(), {.schedule = schedule}, runtime);
      for (int i = 0; i < kSteps / 2; ++i) train_step(optimizer, model, rank, i);
      torch::save(optimizer, stream);
    }
    DistributedSgd optimizer(model.tensors(), scheduled_sgd(), {.schedule = schedule}, runtime);
    torch::load(optimizer, stream);
    for (int i = kSteps / 2; i < kSteps; ++i) train_step(optimizer, model, rank, i);
    expect_near(model, straight);
  });
}

// What the program puts there between steps is where ranks go on from.
TEST(ParameterAverage, BeginsWhereTheProgramPutsAllRanks) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({10}, 1);
    DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(1.0),
                             {.schedule = SyncSchedule::diloco(1, 0.5, 0.0)}, runtime);
    for (const double value : {5.0, 7.0}) {
      {
        const at::NoGradGuard no_grad;
        weight.fill_(value);
      }
      step_by(optimizer, weight, 2.0);
      EXPECT_LT(difference(weight.detach(), at::full({10}, value - 1.0, at::kDouble)), 1e-12);
    }
  });
}

// A rank that left a step out: flush() brings all together.
TEST(ParameterAverage, FlushesRanksThatHaveSteppedDifferentlyOften) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({10}, 1);
    const at::Tensor before = weight.detach().clone();
    DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(1.0),
                             {.schedule = SyncSchedule::local_sgd(4)}, runtime);
    if (runtime.topology().rank == 0) step_by(optimizer, weight, 2.0);
    optimizer.flush();
    EXPECT_LT(difference(weight.detach(), before - 1.0), 1e-12);
  });
}

// An optimizer may end after its job, in the middle of what its schedule has begun.
TEST(ParameterAverage, OutlivesItsRuntime) {
  std::unique_ptr<DistributedSgd> optimizer;
  run_ranks(1, [&](Runtime& runtime) {
    const at::Tensor weight = make_parameter({10}, 1);
    optimizer =
        std::make_unique<DistributedSgd>(std::vector{weight}, optim::SGDOptions(1.0),
                                         DistributedOptions{.schedule = SyncSchedule::local_sgd(4)}, runtime);
    step_by(*optimizer, weight, 1.0);
  });
  testing::internal::CaptureStderr();
  optimizer.reset();
  const std::string words = testing::internal::GetCapturedStderr();
  EXPECT_NE(words.find("rank 0: an optimizer with schedule local_sgd:4 ends"), words.npos) << words;
}

}  // namespace
}  // namespace rueda
