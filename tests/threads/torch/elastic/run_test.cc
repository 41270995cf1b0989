// SPDX-License-Identifier: Apache-2.0
// elastic::run() with the default Runtime, on one rank: jobs that follow one another in a process.
#include "rueda/torch/elastic/run.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <thread>

#include "core/base/error.h"
#include "core/default_runtime.h"
#include "rueda/torch/collectives/scope_reference.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda::elastic {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Purpose: a job of one rank, in which a model trains.
class ElasticRun : public testing::Test {
 protected:
  ElasticRun() { begin_job(false); }
  ~ElasticRun() override { shutdown(); }

  void begin_job(bool elastic) {
    RuntimeComponents components = memory_components(network_, 0, 1, {});
    components.elastic = elastic;
    init(std::move(components));
  }

  void train(DistributedOptimizer<torch::optim::SGD>& optimizer) {
    optimizer.zero_grad();
    model_->forward(at::ones({1, 2})).sum().backward();
    optimizer.step();
  }

  MemoryNetwork network_{1};
  torch::nn::Linear model_{2, 1};
};

// The part of another rank in run(), with a Runtime of its own, until the function begins.
void run_rank_of_run(Runtime& runtime) { State({}).sync(runtime); }

TEST_F(ElasticRun, BeginsTheJobAnewAfterAFailureAndTrainsOn) {
  DistributedOptimizer<torch::optim::SGD> optimizer(model_->parameters(), torch::optim::SGDOptions(1.0));
  std::int64_t steps = 0, calls = 0, resets = 0;
  State state({{"model", model_}, {"optimizer", optimizer}, {"steps", steps}});
  state.on_reset([&] { ++resets; });
  const at::Tensor before = model_->weight.detach().clone();
  const std::uint64_t jobs = jobs_begun();
  run(state, [&] {
    ++calls;
    while (steps < 6) {
      train(optimizer);
      ++steps;
      if (calls < 3 && steps == 2 * calls) throw_if_error(Status::backend_error("as if it had failed"));
      state.commit();
    }
  });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(resets, 2);
  EXPECT_EQ(jobs_begun(), jobs + 2);
  // The second failure comes after a step behind a light commit, which stays: there is no other rank.
  EXPECT_NEAR((before - model_->weight).mean().item<double>(), 6.0 + 1.0, 1e-5);
}

TEST_F(ElasticRun, AReducerMadeOutsideHasAnotherGenerationInEachJob) {
  DistributedOptimizer<torch::optim::SGD> optimizer(model_->parameters(), torch::optim::SGDOptions(1.0),
                                                    {.schedule = SyncSchedule::accumulate(2)});
  std::int64_t calls = 0;
  State state({{"model", model_}, {"optimizer", optimizer}});
  const at::Tensor before = model_->weight.detach().clone();
  run(state, [&] {
    train(optimizer);  // is kept for the next step, which this job does not have
    if (++calls < 2) throw_if_error(Status::backend_error("as if it had failed"));
    optimizer.zero_grad();
    EXPECT_TRUE(at::equal(model_->weight, before)) << "the step of another job";
    train(optimizer);
  });
  EXPECT_FALSE(at::equal(model_->weight, before));
}

TEST_F(ElasticRun, ANormThatWasClippedInAnotherJobIsForgotten) {
  DistributedOptimizer<torch::optim::SGD> optimizer(model_->parameters(), torch::optim::SGDOptions(1.0),
                                                    {.measure_norm = true});
  std::int64_t calls = 0;
  State state({{"model", model_}, {"optimizer", optimizer}});
  run(state, [&] {
    optimizer.zero_grad();
    model_->forward(at::ones({1, 2})).sum().backward();
    EXPECT_NEAR(double(optimizer.grad_norm()), std::sqrt(3.0), 1e-6);
    optimizer.clip_grad_norm_(0.5);
    EXPECT_NEAR(double(optimizer.grad_norm()), 0.5, 1e-6);
    if (++calls < 2) throw_if_error(Status::backend_error("as if it had failed"));
  });
}

TEST_F(ElasticRun, ASamplerIsDividedAmongThePresentRanks) {
  Sampler sampler(12);
  State state({{"sampler", sampler}});
  sampler.divide(0, 3);
  state.ranks_changed();
  EXPECT_EQ(sampler.indices().size(), 12U);
}

TEST_F(ElasticRun, AJobThatCannotBeFormedAgainEndsIt) {
  shutdown();
  MemoryNetwork network(2);
  std::thread other([&] {
    Runtime runtime(memory_components(network, 1, 2, {}));
    run_rank_of_run(runtime);
    runtime.shutdown();
  });
  init(memory_components(network, 0, 2, {}));
  State state({});
  const std::string words = words_of<PeerLost>(
      [&] { run(state, [] { throw_if_error(Status::backend_error("as if it had failed")); }); });
  EXPECT_THAT(words, AllOf(HasSubstr("as if it had failed"), HasSubstr("had 2 ranks, and init() has found 1"),
                           HasSubstr("from a checkpoint")));
  other.join();
}

TEST_F(ElasticRun, FailuresWithoutACommitInBetweenEndIt) {
  State state({});
  int calls = 0;
  const std::string words = words_of<BackendError>([&] {
    run(state, [&] {
      if (++calls <= 2) state.commit();
      throw_if_error(Status::backend_error("as if it had failed"));
    });
  });
  EXPECT_EQ(calls, 4);
  EXPECT_THAT(words,
              AllOf(HasSubstr("as if it had failed"), HasSubstr("has tried 3 times, and no commit came")));
}

TEST_F(ElasticRun, AReducerMadeInsideStaysAsItIs) {
  std::int64_t calls = 0;
  State state({{"calls", calls}});
  std::unique_ptr<DistributedOptimizer<torch::optim::SGD>> kept;
  const at::Tensor before = model_->weight.detach().clone();
  run(state, [&] {
    if (!kept) {
      kept = std::make_unique<DistributedOptimizer<torch::optim::SGD>>(
          model_->parameters(), torch::optim::SGDOptions(1.0),
          DistributedOptions{.schedule = SyncSchedule::accumulate(2)});
      train(*kept);
      throw_if_error(Status::backend_error("as if it had failed"));
    }
    EXPECT_TRUE(at::equal(model_->weight, before));
    train(*kept);  // the second step of its interval: nobody has made it anew
  });
  EXPECT_FALSE(at::equal(model_->weight, before));
}

TEST_F(ElasticRun, ErrorsOfTheProgramEndIt) {
  State state({});
  const std::uint64_t jobs = jobs_begun();
  EXPECT_THROW(run(state, [] { throw std::domain_error("mine"); }), std::domain_error);
  EXPECT_THROW(run(state, [] { refuse("this means nothing"); }), InvalidArgument);
  EXPECT_EQ(jobs_begun(), jobs);
  EXPECT_TRUE(is_initialized());
}

TEST_F(ElasticRun, AScopeOfAllRanksFollowsAnElasticJob) {
  shutdown();
  begin_job(true);
  const ScopeReference scope{Scope()};
  const Runtime* const first = &scope.get().runtime();
  shutdown();
  begin_job(true);
  EXPECT_EQ(&scope.get().runtime(), &default_runtime());
  EXPECT_NE(&scope.get().runtime(), first);
}

}  // namespace
}  // namespace rueda::elastic
