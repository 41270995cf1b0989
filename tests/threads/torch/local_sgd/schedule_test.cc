// SPDX-License-Identifier: Apache-2.0
// Delayed synchronisation of gradients: each schedule against the same arithmetic done by hand on one rank.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/regression.h"
#include "tests/support/training/scheduled_training.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

namespace optim = torch::optim;

TEST(Schedule, AccumulateStepsOnTheMeanOfAllBatches) {
  constexpr int kKept = 4, kSteps = 8;
  Regression whole;
  optim::SGD plain(whole.tensors(), scheduled_sgd());
  for (int i = 0; i < kSteps; i += kKept) {
    plain.zero_grad();
    whole.loss(make_batch(kScheduledRows * kScheduledRanks * i, kScheduledRows * kScheduledRanks * kKept))
        .backward();
    plain.step();
  }
  on_scheduled_ranks(SyncSchedule::accumulate(kKept),
                     [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
                       for (int i = 0; i < kSteps; ++i) {
                         const std::vector<at::Tensor> before = values_of(model);
                         optimizer.zero_grad();
                         model.loss(batch_of(rank, i)).backward();
                         EXPECT_EQ(optimizer.synchronize(), i % kKept == kKept - 1) << i;
                         optimizer.step();
                         if (i % kKept != kKept - 1) expect_near(model, before, 1e-300);
                       }
                       expect_near(model, values_of(whole));
                     });
}

TEST(Schedule, AccumulateFlushesWhatIsLeft) {
  Regression whole;
  optim::SGD plain(whole.tensors(), scheduled_sgd());
  whole.loss(make_batch(0, kScheduledRows * kScheduledRanks * 2)).backward();
  plain.step();
  on_scheduled_ranks(SyncSchedule::accumulate(5),
                     [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
                       for (int i = 0; i < 2; ++i) train_step(optimizer, model, rank, i);
                       optimizer.flush();
                       expect_near(model, values_of(whole));
                       optimizer.flush();
                       expect_near(model, values_of(whole));
                     });
}

TEST(Schedule, OneStepLateStepsOnTheGradientsBefore) {
  constexpr int kSteps = 6;
  // Gradients of step i are taken from the parameters of that step, and applied one step later.
  Regression whole;
  optim::SGD plain(whole.tensors(), scheduled_sgd());
  std::vector<at::Tensor> late;
  const auto apply = [&] {
    for (std::size_t k = 0; k < late.size(); ++k) whole[k].mutable_grad() = late[k];
    if (!late.empty()) plain.step();
  };
  for (int i = 0; i < kSteps; ++i) {
    plain.zero_grad();
    whole.loss(make_batch(kScheduledRows * kScheduledRanks * i, kScheduledRows * kScheduledRanks)).backward();
    std::vector<at::Tensor> fresh;
    for (const at::Tensor& tensor : whole.tensors()) fresh.push_back(tensor.grad().clone());
    apply();
    late = std::move(fresh);
  }
  const std::vector<at::Tensor> before_flush = values_of(whole);
  apply();
  for (const bool set_to_none : {true, false}) {
    on_scheduled_ranks(SyncSchedule::one_step_late(),
                       [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
                         for (int i = 0; i < kSteps; ++i) {
                           optimizer.zero_grad(set_to_none);
                           model.loss(batch_of(rank, i)).backward();
                           EXPECT_EQ(optimizer.synchronize(), i > 0);
                           optimizer.step();
                         }
                         expect_near(model, before_flush);
                         optimizer.flush();
                         expect_near(model, values_of(whole));
                         optimizer.flush();
                         expect_near(model, values_of(whole));
                       });
  }
}

// A parameter that only one rank's pass reaches, in some steps.
TEST(Schedule, OneStepLateFillsInWhatIsMissing) {
  run_on_one_host(2, [](Runtime& runtime) {
    const Rank rank = runtime.topology().rank;
    const at::Tensor always = make_parameter({5}, 1), sometimes = make_parameter({5}, 2);
    const at::Tensor before = sometimes.detach().clone();
    DistributedSgd optimizer(std::vector{always, sometimes}, optim::SGDOptions(1.0),
                             {.schedule = SyncSchedule::one_step_late()}, runtime);
    for (int i = 0; i < 4; ++i) {
      optimizer.zero_grad();
      at::Tensor loss = always.sum();
      if (rank == i % 2) loss = loss + sometimes.sum();
      loss.backward();
      optimizer.step();
      EXPECT_LT(difference(sometimes.detach(), before - 0.5 * i), 1e-12) << i;
    }
    optimizer.flush();
    EXPECT_LT(difference(sometimes.detach(), before - 2.0), 1e-12);
  });
}

// The step that is on its way when another one fails arrives all the same.
TEST(Schedule, OneStepLateGoesOnAfterAFailure) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({5}, 1);
    const at::Tensor before = weight.detach().clone();
    DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(1.0),
                             {.schedule = SyncSchedule::one_step_late()}, runtime);
    step_by(optimizer, weight, 1.0);
    optimizer.zero_grad();
    weight.mutable_grad() = at::ones({5}, runtime.topology().rank == 0 ? at::kDouble : at::kFloat);
    optimizer.step();  // on the first gradients; the ranks' new ones differ in type
    EXPECT_LT(difference(weight.detach(), before - 1.0), 1e-12);
    EXPECT_THROW(step_by(optimizer, weight, 1.0), Mismatch);
    step_by(optimizer, weight, 1.0);
    EXPECT_LT(difference(weight.detach(), before - 2.0), 1e-12);
    optimizer.flush();
    EXPECT_LT(difference(weight.detach(), before - 3.0), 1e-12);
  });
}

TEST(Schedule, ALearningRateSchedulerSteps) {
  const Regression plain_model;
  optim::SGD plain(plain_model.tensors(), scheduled_sgd());
  optim::StepLR plain_scheduler(plain, 1, 0.5);
  for (int i = 0; i < 2; ++i) plain_scheduler.step();
  const double expected = plain.param_groups()[0].options().get_lr();
  EXPECT_LT(expected, 0.2);
  on_scheduled_ranks(SyncSchedule::local_sgd(2),
                     [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
                       optim::StepLR scheduler(optimizer, 1, 0.5);
                       for (int i = 0; i < 2; ++i) {
                         train_step(optimizer, model, rank, i);
                         scheduler.step();
                       }
                       EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), expected);
                     });
}

TEST(Schedule, WhatWasBegunMustEndBeforeItIsSaved) {
  for (const SyncSchedule& schedule :
       {SyncSchedule::accumulate(3), SyncSchedule::local_sgd(3), SyncSchedule::one_step_late()}) {
    on_scheduled_ranks(schedule, [&](DistributedSgd& optimizer, Regression& model, Rank rank) {
      std::stringstream stream;
      torch::save(optimizer, stream);
      train_step(optimizer, model, rank, 0);
      const std::string words = words_of([&] { torch::save(optimizer, stream); });
      EXPECT_NE(words.find("save() in the middle of what schedule " + schedule.to_string()), words.npos)
          << words;
      EXPECT_NE(words.find("call flush() first"), words.npos) << words;
      optimizer.flush();
      torch::save(optimizer, stream);
    });
  }
}

TEST(Schedule, WhatCannotBeTogetherIsRefused) {
  run_ranks(2, [](Runtime& runtime) {
    const Regression model;
    const auto words = [&](DistributedOptions options) {
      return words_of(
          [&] { const DistributedSgd optimizer(model.tensors(), scheduled_sgd(), options, runtime); });
    };
    const SyncSchedule local = SyncSchedule::local_sgd(4);
    for (const std::string& each :
         {words({.op = ReduceOp::sum, .schedule = local}), words({.op = ReduceOp::adasum, .schedule = local}),
          words({.schedule = local, .gradient_predivide_factor = 2}),
          words({.schedule = local, .reduction_order = ReductionOrder::fixed})})
      EXPECT_NE(each.find("with schedule local_sgd:4 parameters are averaged"), each.npos) << each;

    DistributedSgd optimizer(model.tensors(), scheduled_sgd(), {.schedule = local}, runtime);
    EXPECT_NE(words_of([&] { auto skip = optimizer.skip_synchronize(); }).find("choose every_step"),
              std::string::npos);

    for (const SyncSchedule& schedule :
         {local, SyncSchedule::diloco(4), SyncSchedule::adaptive(), SyncSchedule::one_step_late()}) {
      const std::string sharded = words_of([&] {
        const Regression own;
        const ShardedOptimizer<optim::SGD> shards(own.tensors(), scheduled_sgd(), {.schedule = schedule},
                                                  runtime);
      });
      EXPECT_NE(sharded.find("a ShardedOptimizer with schedule " + schedule.to_string()), sharded.npos)
          << sharded;
    }
  });
}

TEST(Schedule, RanksMustChooseTheSame) {
  run_ranks(2, [](Runtime& runtime) {
    const Regression model;
    try {
      const DistributedSgd optimizer(model.tensors(), scheduled_sgd(),
                                     {.schedule = SyncSchedule::accumulate(2 + runtime.topology().rank)},
                                     runtime);
      FAIL() << "made";
    } catch (const Mismatch& error) {
      const std::string words = error.what();
      EXPECT_NE(words.find("schedule accumulate:2"), words.npos) << words;
      EXPECT_NE(words.find("schedule accumulate:3"), words.npos) << words;
    }
  });
}

TEST(Schedule, AShardedOptimizerAccumulates) {
  Regression whole;
  optim::SGD plain(whole.tensors(), scheduled_sgd());
  for (int i = 0; i < 4; i += 2) {
    plain.zero_grad();
    whole.loss(make_batch(kScheduledRows * kScheduledRanks * i, kScheduledRows * kScheduledRanks * 2))
        .backward();
    plain.step();
  }
  run_on_one_host(kScheduledRanks, [&](Runtime& runtime) {
    Regression model;
    {
      ShardedOptimizer<optim::SGD> optimizer(model.tensors(), scheduled_sgd(),
                                             {.schedule = SyncSchedule::accumulate(2)}, runtime);
      for (int i = 0; i < 4; ++i) train_step(optimizer, model, runtime.topology().rank, i);
    }
    expect_near(model, values_of(whole));
  });
}

// As loops with a loss scaler do when a gradient is not finite.
TEST(Schedule, AnAccumulatedStepMayBeLeftOut) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({5}, 1);
    const at::Tensor before = weight.detach().clone();
    DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(1.0),
                             {.schedule = SyncSchedule::accumulate(2)}, runtime);
    step_by(optimizer, weight, 1.0);
    optimizer.zero_grad();
    (weight * NAN).sum().backward();
    EXPECT_FALSE(std::isfinite(optimizer.clip_grad_norm_(1.0)));
    optimizer.zero_grad();
    EXPECT_FALSE(weight.grad().defined());
    for (int i = 0; i < 4; ++i) step_by(optimizer, weight, 1.0);
    EXPECT_LT(difference(weight.detach(), before - 2.0), 1e-12);
  });
}

// What flush() has stepped on does not count again, whatever the order of the loop; it may be clipped.
TEST(Schedule, TrainingGoesOnAfterAFlush) {
  for (const SyncSchedule& schedule : {SyncSchedule::accumulate(2), SyncSchedule::one_step_late()}) {
    for (const bool measure : {false, true}) {
      run_on_one_host(2, [&](Runtime& runtime) {
        const at::Tensor weight = make_parameter({4}, 1);
        const at::Tensor before = weight.detach().clone();
        DistributedOptions options;
        options.schedule = schedule;
        options.measure_norm = measure;
        DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(1.0), options, runtime);
        const auto pass = [&] {
          weight.sum().backward();
          optimizer.step();
          optimizer.zero_grad();
        };
        pass();
        optimizer.flush(1.0);  // a norm of 2 becomes 1
        EXPECT_LT(difference(weight.detach(), before - 0.5), 1e-6);
        pass();
        optimizer.flush();
        EXPECT_LT(difference(weight.detach(), before - 1.5), 1e-6);
      });
    }
  }
}

TEST(Schedule, AFlushInTheMiddleOfAStepIsRefused) {
  run_ranks(2, [](Runtime& runtime) {
    const at::Tensor weight = make_parameter({4}, 1);
    DistributedOptions options;
    options.schedule = SyncSchedule::one_step_late();
    options.overlap = false;
    DistributedSgd optimizer(std::vector{weight}, optim::SGDOptions(1.0), options, runtime);
    step_by(optimizer, weight, 1.0);
    weight.sum().backward();
    EXPECT_NE(words_of([&] { optimizer.flush(); }).find("flush() after a backward pass"), std::string::npos);
    optimizer.step();
    optimizer.flush();
  });
}

}  // namespace
}  // namespace rueda
