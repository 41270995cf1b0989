// SPDX-License-Identifier: Apache-2.0
// A ShardedOptimizer in elastic jobs whose workers are threads: workers are lost in each part of a step, and
// others join. The parameters are those of a training without losses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/base/log.h"
#include "tests/support/sanitized.h"
#include "tests/support/training/regression.h"
#include "tests/threads/torch/elastic/elastic_job.h"

namespace rueda::elastic {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Purpose: trains a Regression by a ShardedOptimizer.
class OptimizerLearner final : public Learner {
 public:
  OptimizerLearner(Worker worker, int copies, std::int64_t hidden)
      : model_(static_cast<int>(worker) + 1, at::kDouble, hidden),
        optimizer_(model_.tensors(), torch::optim::AdamWOptions(0.003).weight_decay(0.1),
                   DistributedOptions{.part_copies = copies}, alone()) {
    for (const auto& [name, tensor] : model_.named)
      module_->register_parameter(std::string(name).replace(name.find('.'), 1, "_"), tensor);
    keep({{"model", module_}, {"optimizer", optimizer_}});
  }

  void backward(Rank rank, Rank ranks, const std::function<void(Moment)>&) override {
    optimizer_.zero_grad();
    const std::int64_t first = kRows * rank / ranks, last = kRows * (rank + 1) / ranks;
    model_.loss(make_batch(kRows * steps() + first, last - first)).backward();
  }
  void step() override { optimizer_.step(); }
  torch::optim::Optimizer& optimizer() override { return optimizer_; }
  at::Tensor parameters() override {
    std::vector<at::Tensor> all;
    for (const at::Tensor& each : model_.tensors()) all.push_back(each.detach().flatten());
    return at::cat(all);
  }

 private:
  Regression model_;
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>();
  ShardedOptimizer<Watched> optimizer_;
};

constexpr std::int64_t kHidden = 2000, kFew = 8;  // of few values some ranks have no part

MakeLearner learners(int copies, std::int64_t hidden = kHidden) {
  return [=](Worker worker) { return std::make_unique<OptimizerLearner>(worker, copies, hidden); };
}

int expect_no_trace(const Story& story) {
  static const at::Tensor undisturbed = train_undisturbed(learners(1));
  return elastic::expect_no_trace(story, learners(story.copies), undisturbed);
}

class ShardedLosses : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  void SetUp() override { configure_log(LogLevel::fatal, false, 0); }
  void TearDown() override { configure_log(LogLevel::warning, false, 0); }
  Story story(Rank workers, std::vector<Loss> losses) const {
    return {.workers = workers, .losses = std::move(losses), .hosts = GetParam()};
  }
};

constexpr Moment kMoments[] = {Moment::backward, Moment::step, Moment::before_commit, Moment::after_commit};

TEST_P(ShardedLosses, OfAnyRankAtAnyMomentLeaveNoTrace) {
  int joined = 0;
  for (const Moment moment : kMoments) {
    for (Worker victim = 0; victim < 3; ++victim) {
      for (const bool replaced : {false, true}) {
        if (!in_full("torch") && replaced == (victim == 1)) continue;  // each of the three once a moment
        SCOPED_TRACE(
            fmt::format("worker {}, moment {}, replaced {}", victim, static_cast<int>(moment), replaced));
        Story lost = story(3, {{victim, 5, moment}});
        lost.replaced = replaced;
        joined += expect_no_trace(lost);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(joined, 1);
}

TEST_P(ShardedLosses, OfTwoThatAreNoNeighboursLeaveNoTrace) {
  for (const Moment moment : kMoments) {
    Story lost = story(4, {{0, 5, moment}, {2, 5, moment}});
    lost.replaced = false;
    expect_no_trace(lost);
  }
}

TEST_P(ShardedLosses, OfNeighboursLeaveNoTraceIfThereAreTwoCopies) {
  Story lost = story(4, {{1, 5, Moment::step}, {2, 5, Moment::step}, {0, 9, Moment::backward}});
  lost.replaced = false;
  lost.copies = 2;
  expect_no_trace(lost);
}

TEST_P(ShardedLosses, OneAfterAnotherLeaveNoTrace) {
  expect_no_trace(story(3, {{1, 3, Moment::step}, {0, 6, Moment::before_commit}, {3, 9, Moment::backward}}));
}

TEST_P(ShardedLosses, BetweenFullCommitsLeaveNoTrace) {
  for (const Moment moment : kMoments) {
    for (const std::int64_t step : {5, 1, 6}) {  // 5: the next commit follows this step
      if (step != 5 && !in_full("torch")) continue;
      Story lost = story(3, {{1, step, moment}});
      lost.commit_interval = 3;
      expect_no_trace(lost);
    }
  }
}

TEST_P(ShardedLosses, OfRanksOfWhichSomeHaveEmptyPartsLeaveNoTrace) {
  const at::Tensor undisturbed = train_undisturbed(learners(1, kFew));
  for (Worker victim = 0; victim < 3; ++victim) {
    const Story lost = story(3, {{victim, 5, Moment::step}});
    elastic::expect_no_trace(lost, learners(1, kFew), undisturbed);
  }
}

TEST_P(ShardedLosses, AtRandomLeaveNoTrace) {
  for (int round = 0; round < (in_full("torch") ? 25 : 6); ++round) {
    const auto victim = static_cast<Worker>(round % 3);
    Story lost = story(3, {{victim, 4 + round % 5, Moment::any}});
    lost.commit_interval = round % 4 == 3 ? 2 : 1;
    expect_no_trace(lost);
    if (HasFailure()) return;
  }
}

TEST_P(ShardedLosses, OfAllThatHaveAPartAreNamed) {
  for (const int copies : {0, 1}) {
    Story lost = story(4, {{1, 5, Moment::step}});
    if (copies == 1) lost.losses.push_back({2, 5, Moment::step});
    lost.replaced = false;
    lost.copies = copies;
    Job job(lost, learners(copies));
    job.run();
    EXPECT_EQ(std::ssize(job.errors()), 3 - copies);
    for (const std::string& error : job.errors()) {
      EXPECT_THAT(error, AllOf(HasSubstr("part 1 of the 4 parts"), HasSubstr("after step "),
                               HasSubstr("from a checkpoint"), HasSubstr("part_copies")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, ShardedLosses,
                         testing::Values(std::vector<std::string>{"one"},
                                         std::vector<std::string>{"even", "odd"}));

}  // namespace
}  // namespace rueda::elastic
