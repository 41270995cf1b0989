// SPDX-License-Identifier: Apache-2.0
// A ShardedModel in elastic jobs whose workers are threads: workers are lost in each part of a step, and
// others join. The parameters are those of a training without losses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/schedulers/step_lr.h>

#include <memory>
#include <tuple>

#include "core/base/log.h"
#include "rueda/torch/sharding/sharded_model.h"
#include "tests/support/training/layered_model.h"
#include "tests/support/words_of.h"
#include "tests/threads/torch/elastic/elastic_job.h"

namespace rueda::elastic {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using torch::optim::AdamWOptions;

// How a model is divided and trained.
struct Manner {
  bool share = true;
  int copies = 1;
  bool rich = false;  // tied weights, groups, a scheduler, two passes, clipped gradients, a still parameter
};

// Purpose: trains a LayeredModel by a ShardedModel.
class ModelLearner final : public Learner {
 public:
  ModelLearner(Worker worker, const Manner& manner)
      : manner_(manner),
        model_(3, manner.rich),
        sharded_(model_,
                 {.units = model_.units(),
                  .backward_passes_per_step = passes(),
                  .share = manner.share,
                  .part_copies = manner.copies},
                 groups(), AdamWOptions(0.003).weight_decay(0.1), alone()),
        scheduler_(sharded_, 4, 0.7) {
    const at::NoGradGuard no_grad;
    for (at::Tensor& each : model_.parameters()) each.mul_(1 + 0.1 * static_cast<double>(worker));
    if (worker > 0) seen_.fill_(99);  // the values of a new worker count for nothing
    model_.runner = sharded_.runner();
    keep({{"model", model_}, {"optimizer", sharded_}, {"scheduler", scheduler_}});
  }

  void backward(Rank rank, Rank ranks, const std::function<void(Moment)>& comes_to) override {
    sharded_.zero_grad();
    const std::int64_t rows = kRows / passes();
    for (int pass = 0; pass < passes(); ++pass) {
      const std::int64_t first = rows * rank / ranks, last = rows * (rank + 1) / ranks;
      int layers = 0;
      model_.on_layer = [&](const at::Tensor& hidden) {
        if (++layers != 2) return;
        comes_to(Moment::in_forward);
        if (hidden.requires_grad())
          hidden.register_hook([&comes_to](const at::Tensor&) { comes_to(Moment::in_hook); });
      };
      const Batch batch = make_batch(kRows * steps() + rows * pass + first, last - first);
      sharded_.run([&] { return model_.loss(batch); }).backward();
      comes_to(Moment::between_passes);
    }
    model_.on_layer = nullptr;
    seen_.add_(1);
    if (!manner_.rich) return;
    sharded_.clip_grad_norm(0.05);
    comes_to(Moment::clipped);
  }
  void step() override {
    sharded_.step();
    if (manner_.rich) scheduler_.step();
  }
  torch::optim::Optimizer& optimizer() override { return sharded_; }
  at::Tensor parameters() override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> all{seen_.clone()};
    const auto add = [&](const torch::nn::Module& module) {
      for (const at::Tensor& each : module.parameters(/*recurse=*/false))
        all.push_back(each.flatten().clone());
    };
    sharded_.run([&] {
      add(model_);
      for (const auto& layer : model_.layers) {
        model_.runner(*layer, [&] {
          add(*layer);
          return at::Tensor();
        });
      }
      return 0;
    });
    return at::cat(all);
  }

 private:
  int passes() const { return manner_.rich ? 2 : 1; }
  std::vector<torch::optim::OptimizerParamGroup> groups() const {
    using Group = torch::optim::OptimizerParamGroup;
    std::vector<Group> groups;
    if (!manner_.rich) {
      groups.emplace_back(model_.parameters());
      return groups;
    }
    groups.emplace_back(std::vector{model_.head, model_.layers[2]->weight},
                        std::make_unique<AdamWOptions>(0.01));
    groups.emplace_back(std::vector{model_.layers[0]->weight, model_.layers[1]->weight});
    groups.emplace_back(std::vector{model_.layers[0]->bias, model_.layers[1]->bias});
    return groups;  // the bias of the last layer stays as it is
  }

  const Manner manner_;
  LayeredModel model_;
  at::Tensor seen_ = model_.register_buffer("seen", at::zeros({1}, at::kDouble));
  ShardedModel<Watched> sharded_;
  torch::optim::StepLR scheduler_;
};

MakeLearner model_learners(const Manner& manner) {
  return [=](Worker worker) { return std::make_unique<ModelLearner>(worker, manner); };
}

// Hosts of the workers, and whether the ranks of one host share parameters.
class ModelLosses : public testing::TestWithParam<std::tuple<std::vector<std::string>, bool>> {
 protected:
  void SetUp() override { configure_log(LogLevel::fatal, false, 0); }
  void TearDown() override { configure_log(LogLevel::warning, false, 0); }
  Story story(Rank workers, std::vector<Loss> losses, bool replaced = true) const {
    return {.workers = workers,
            .losses = std::move(losses),
            .replaced = replaced,
            .hosts = std::get<0>(GetParam())};
  }
  // How many have joined.
  int expect_no_trace(const Story& story, bool rich = false) const {
    static const at::Tensor plain_values = train_undisturbed(model_learners({}));
    static const at::Tensor rich_values = train_undisturbed(model_learners({.rich = true}));
    return elastic::expect_no_trace(story, model_learners(manner(story.copies, rich)),
                                    rich ? rich_values : plain_values);
  }
  Manner manner(int copies, bool rich = false) const {
    return {.share = std::get<1>(GetParam()), .copies = copies, .rich = rich};
  }
  static constexpr Moment kAnywhere[] = {Moment::backward, Moment::in_forward,    Moment::in_hook,
                                         Moment::step,     Moment::before_commit, Moment::after_commit};
};

TEST_P(ModelLosses, OfAnyRankAtAnyMomentLeaveNoTrace) {
  int joined = 0;
  for (const Moment moment : kAnywhere) {
    for (Worker victim = 0; victim < 3; ++victim) {
      for (const bool replaced : {false, true}) {
        SCOPED_TRACE(
            fmt::format("worker {}, moment {}, replaced {}", victim, static_cast<int>(moment), replaced));
        joined += expect_no_trace(story(3, {{victim, 5, moment}}, replaced));
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(joined, 3);
}

TEST_P(ModelLosses, WithGroupsPassesAndClippingLeaveNoTrace) {
  for (const Moment moment : {Moment::in_hook, Moment::between_passes, Moment::clipped, Moment::step,
                              Moment::before_commit, Moment::after_commit}) {
    for (Worker victim = 0; victim < 2; ++victim) {
      SCOPED_TRACE(fmt::format("worker {}, moment {}", victim, static_cast<int>(moment)));
      expect_no_trace(story(2, {{victim, 5, moment}}), /*rich=*/true);
      if (HasFailure()) return;
    }
  }
}

TEST_P(ModelLosses, OfTwoThatAreNoNeighboursLeaveNoTrace) {
  for (const Moment moment : kAnywhere)
    expect_no_trace(story(4, {{0, 5, moment}, {2, 5, moment}}, /*replaced=*/false));
}

TEST_P(ModelLosses, OfNeighboursLeaveNoTraceIfThereAreTwoCopies) {
  Story lost = story(4, {{1, 5, Moment::step}, {2, 5, Moment::step}, {0, 9, Moment::backward}}, false);
  lost.copies = 2;
  expect_no_trace(lost);
}

TEST_P(ModelLosses, OneAfterAnotherLeaveNoTrace) {
  expect_no_trace(story(3, {{1, 3, Moment::step}, {0, 6, Moment::before_commit}, {3, 9, Moment::backward}}),
                  /*rich=*/true);
}

TEST_P(ModelLosses, BetweenFullCommitsLeaveNoTrace) {
  for (const Moment moment : kAnywhere) {
    for (const std::int64_t step : {1, 5, 6}) {  // 5: the next commit follows this step
      Story lost = story(3, {{1, step, moment}});
      lost.commit_interval = 3;
      expect_no_trace(lost);
    }
  }
}

TEST_P(ModelLosses, AtRandomLeaveNoTrace) {
  for (int round = 0; round < 20; ++round) {
    const auto victim = static_cast<Worker>(round % 3);
    Story lost = story(3, {{victim, 4 + round % 5, Moment::any}});
    lost.commit_interval = round % 4 == 3 ? 2 : 1;
    expect_no_trace(lost, round % 2 == 1);
    if (HasFailure()) return;
  }
}

TEST_P(ModelLosses, OfAllThatHaveAPartAreNamed) {
  for (const int copies : {0, 1}) {
    Story lost = story(4, {{1, 5, Moment::step}}, /*replaced=*/false);
    if (copies == 1) lost.losses.push_back({2, 5, Moment::step});
    Job job(lost, model_learners(manner(copies)));
    job.run();
    EXPECT_EQ(std::ssize(job.errors()), 3 - copies);
    for (const std::string& error : job.errors()) {
      EXPECT_EQ(error, job.errors().front());
      EXPECT_THAT(error,
                  AllOf(HasSubstr("part 1 of the 4 parts of a sharded model"), HasSubstr("after step "),
                        HasSubstr("from a checkpoint"), HasSubstr("part_copies")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, ModelLosses,
                         testing::Values(std::tuple(std::vector<std::string>{"one"}, true),
                                         std::tuple(std::vector<std::string>{"one"}, false),
                                         std::tuple(std::vector<std::string>{"even", "odd"}, true)));

}  // namespace
}  // namespace rueda::elastic
