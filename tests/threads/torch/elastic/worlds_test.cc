// SPDX-License-Identifier: Apache-2.0
// The state that ranks go on from after a failure: random worlds of ranks that are threads, against a
// training without failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/elastic/state.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/state/stateful.h"
#include "tests/support/rank_words.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"
#include "tests/threads/torch/elastic/trained.h"

namespace rueda::elastic {
namespace {

using testing::HasSubstr;

// All bits of the parameters and of the optimizer's state, and the batch.
struct Content {
  std::string parameters, optimizer;
  std::int64_t batch = 0;
  friend bool operator==(const Content&, const Content&) = default;
};

// Purpose: a rank's training. It steps by itself, on batches that are the same on all ranks.
class Learner {
 public:
  Learner(int seed, const Scope& own) : regression_(seed) {
    for (const auto& [name, tensor] : regression_.named)
      module_->register_parameter(std::string(name).replace(name.find('.'), 1, "_"), tensor);
    optimizer_ = std::make_unique<DistributedOptimizer<FusedAdamW>>(
        regression_.tensors(), torch::optim::AdamWOptions(0.05), DistributedOptions{}, own);
    state_ = std::make_unique<State>(std::vector<std::pair<std::string, Kept>>{
        {"model", module_}, {"optimizer", *optimizer_}, {"batch", batch_}});
  }

  void backward() {
    optimizer_->zero_grad();
    regression_.loss(make_batch(batch_ * 8, 8)).backward();
    optimizer_->synchronize();
  }
  void step() {
    backward();
    optimizer_->step();
  }
  void commit() {
    ++batch_;
    state_->commit();
  }
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      commit();
    }
  }

  Content content() const { return {to_bytes(Stateful(module_)), content_of(*optimizer_), batch_}; }
  State& state() { return *state_; }
  at::Tensor parameter() const { return regression_[0]; }
  std::int64_t& batch() { return batch_; }

 private:
  Regression regression_;
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>();
  std::unique_ptr<DistributedOptimizer<FusedAdamW>> optimizer_;
  std::int64_t batch_ = 0;
  std::unique_ptr<State> state_;
};

// This rank alone, as which its optimizer reduces.
Scope own_scope(Runtime& runtime) {
  if (runtime.topology().size == 1) return runtime;
  std::vector<ProcessSet> sets;
  for (Rank rank = 0; rank < runtime.topology().size; ++rank)
    sets.push_back(add_process_set(RankSet(rank, rank + 1), runtime));
  return sets[static_cast<std::size_t>(runtime.topology().rank)];
}

// content() after each number of steps of a training without failures.
std::vector<Content> contents_without_failures(int steps) {
  std::vector<Content> contents;
  run_ranks(1, [&](Runtime& runtime) {
    Learner learner(1, own_scope(runtime));
    contents.push_back(learner.content());
    for (int i = 0; i < steps; ++i) {
      learner.train(1);
      contents.push_back(learner.content());
    }
  });
  return contents;
}

// The progress of a rank in the step that fails.
enum class Fate { backward, stepped, committed, replaced };

// Returns the rank's training after the failure and restore().
std::unique_ptr<Learner> after_failure(std::unique_ptr<Learner> learner, Fate fate, int seed,
                                       const Scope& own) {
  if (fate == Fate::replaced) return std::make_unique<Learner>(seed, own);
  if (fate == Fate::backward) learner->backward();
  if (fate == Fate::stepped || fate == Fate::committed) learner->step();
  if (fate == Fate::committed) {
    learner->commit();
    learner->backward();
  }
  learner->batch() += 5;  // not committed
  learner->state().restore();
  return learner;
}

// The content of all ranks after a failure behind commit number `before`, and true if rank 0 warns.
std::pair<Content, bool> expected(std::size_t before, const std::vector<Fate>& fates, bool light,
                                  const std::vector<Content>& contents) {
  const auto any = [&](Fate fate) { return std::ranges::count(fates, fate) > 0; };
  if (any(Fate::committed)) return {contents[before + 1], false};
  if (any(Fate::backward) || !light) return {contents[before], false};  // a full commit undoes a step
  Content stepped = contents[before + 1];
  stepped.batch = contents[before].batch;
  return {stepped, true};
}

std::vector<Fate> random_fates(std::mt19937& chance, Rank ranks) {
  std::vector<Fate> fates;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const unsigned drawn = chance() % 5;
    fates.push_back(drawn < 2 ? Fate::backward : static_cast<Fate>(drawn - 1));
  }
  fates[chance() % fates.size()] = static_cast<Fate>(chance() % 3);  // somebody has the state
  return fates;
}

// A world, and its present commit.
struct RandomWorld {
  std::mt19937 chance;
  Rank ranks;
  std::size_t before;
};

void live(RandomWorld world, Runtime& runtime, const std::vector<Content>& contents) {
  const Rank rank = runtime.topology().rank;
  const Scope own = own_scope(runtime);
  auto learner = std::make_unique<Learner>(rank + 1, own);
  learner->state().sync(runtime);
  learner->train(static_cast<int>(world.before));
  ASSERT_TRUE(learner->content() == contents[world.before]);
  for (int turn = 0; turn < 2; ++turn) {  // a failure, and one after it
    const std::vector<Fate> fates = random_fates(world.chance, world.ranks);
    const bool light = world.before >= 2;
    const auto [want, warns] = expected(world.before, fates, light, contents);
    learner = after_failure(std::move(learner), fates[static_cast<std::size_t>(rank)], 20 + rank, own);
    learner->state().sync(runtime);
    ASSERT_TRUE(learner->content() == want) << "turn " << turn;
    if (warns) return;
    learner->train(2);
    world.before = static_cast<std::size_t>(want.batch) + 2;
    ASSERT_TRUE(learner->content() == contents[world.before]) << "turn " << turn;
  }
}

TEST(ElasticWorlds, GoOnAsATrainingWithoutFailures) {
  const std::vector<Content> contents = contents_without_failures(14);
  for (std::uint32_t number = 0; number < 120; ++number) {
    SCOPED_TRACE(number);
    RandomWorld world{std::mt19937(number), 0, 0};
    world.ranks = static_cast<Rank>(1 + world.chance() % 4);
    world.before = world.chance() % 6;
    run_ranks(world.ranks, [&](Runtime& runtime) { live(world, runtime, contents); });
    if (testing::Test::HasFailure()) return;
  }
}

// Two ranks with `steps` commits, and `body` with them.
template <class Body>
void two_after(int steps, const Body& body) {
  run_ranks(2, [&](Runtime& runtime) {
    const Scope own = own_scope(runtime);
    Learner learner(runtime.topology().rank + 1, own);
    learner.state().sync(runtime);
    learner.train(steps);
    body(runtime, learner, own);
  });
}

std::uint64_t broadcasts_of(const Runtime& runtime) {
  for (const auto& each : runtime.metrics().operations) {
    if (each.operation == Operation::broadcast) return each.completed;
  }
  return 0;
}

TEST(ElasticWorlds, NothingIsSentWhereAllHaveCommittedTheSame) {
  two_after(3, [](Runtime& runtime, Learner& learner, const Scope&) {
    const std::uint64_t first = broadcasts_of(runtime);
    EXPECT_GT(first, 0U);
    learner.backward();
    learner.state().restore();
    learner.state().sync(runtime);
    EXPECT_EQ(broadcasts_of(runtime), first);
    learner.state().sync(runtime);  // by the program itself, which may have changed anything
    EXPECT_GT(broadcasts_of(runtime), first);
  });
}

TEST(ElasticWorlds, ANewProcessCommitsAsLightlyAsTheOthers) {
  two_after(3, [](Runtime& runtime, Learner& learner, const Scope& own) {
    std::optional<Learner> fresh;
    if (runtime.topology().rank == 1) fresh.emplace(7, own);
    Learner& present = fresh ? *fresh : learner;
    if (!fresh) present.state().restore();
    present.state().sync(runtime);
    EXPECT_TRUE(present.state().is_light());
    EXPECT_EQ(present.state().commits(), 3);
    present.train(1);
    EXPECT_TRUE(present.state().is_light());
  });
}

TEST(ElasticWorlds, AfterAnInterruptAllGetWhatWasNotCommitted) {
  two_after(0, [](Runtime& runtime, Learner& learner, const Scope&) {
    learner.step();
    if (runtime.topology().rank == 1) {
      learner.batch() = 8;
      learner.state().keep_uncommitted();  // check_host_updates() has thrown here
    } else {
      learner.state().restore();  // an operation has failed here
    }
    const at::Tensor stepped = learner.parameter().detach().clone();
    learner.state().sync(runtime);
    EXPECT_EQ(learner.batch(), 8);
    if (runtime.topology().rank == 1) EXPECT_TRUE(at::equal(learner.parameter(), stepped));
    if (runtime.topology().rank == 0) EXPECT_FALSE(at::equal(learner.parameter(), stepped));
  });
}

TEST(ElasticWorlds, AParameterThatHasChangedWithoutAStepIsReplaced) {
  for (const bool moves : {false, true}) {
    two_after(4, [&](Runtime& runtime, Learner& learner, const Scope&) {
      const Content committed = learner.content();
      if (runtime.topology().rank == 0) {
        const at::NoGradGuard no_grad;
        if (moves)
          learner.parameter().set_data(at::ones_like(learner.parameter()));
        else
          learner.parameter().mul_(2);
      }
      learner.state().restore();
      EXPECT_EQ(learner.content() == committed, runtime.topology().rank == 1);
      learner.state().sync(runtime);
      EXPECT_TRUE(learner.content() == committed);
    });
  }
}

TEST(ElasticWorlds, AStepOfAllThatStaysIsWarnedOfOnce) {
  testing::internal::CaptureStderr();
  two_after(3, [](Runtime& runtime, Learner& learner, const Scope&) {
    learner.step();
    learner.state().restore();
    learner.state().sync(runtime);
  });
  flush_stderr(kLastWordsTime);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("its samples are seen twice"));
  EXPECT_EQ(said.find("seen twice"), said.rfind("seen twice"));
}

// Purpose: an object whose synchronisation fails as if a rank were lost, where `fails` says so.
class LostInSync : public Part {
 public:
  explicit LostInSync(const bool& fails) : fails_(fails) {}
  std::string describe() const override { return "a loss"; }
  void save() override {}
  void restore() override {}
  void sync(Rank, const Scope&) override {
    if (fails_) throw PeerLost(Status::peer_lost("as if a rank were lost"));
  }

 private:
  const bool& fails_;
};

// The things of a rank after a synchronisation that failed.
struct Torn {
  Runtime& runtime;
  Scope own;
  State& state;
  at::Tensor weight, committed;
  Rank rank() const { return runtime.topology().rank; }
};

// One of two ranks is a commit behind. The synchronisation fails when it has the parameters of the other.
void fail_in_sync(int steps, const std::function<void(Torn)>& then) {
  run_ranks(2, [&](Runtime& runtime) {
    const Scope own = own_scope(runtime);
    const Rank rank = runtime.topology().rank;
    torch::nn::Linear model(2, 1);
    DistributedOptimizer<FusedAdamW> optimizer(model->parameters(), torch::optim::AdamWOptions(0.1), {}, own);
    bool fails = false;
    State state({{"model", model}, {"optimizer", optimizer}, {"loss", std::make_shared<LostInSync>(fails)}});
    const auto train = [&] {
      optimizer.zero_grad();
      model->forward(at::ones({1, 2})).sum().backward();
      optimizer.step();
      state.commit();
    };
    state.sync(runtime);
    for (int i = 0; i < steps + (rank == 0 ? 1 : 0); ++i) train();
    state.restore();
    const at::Tensor committed = model->weight.detach().clone();
    fails = true;
    EXPECT_THROW(state.sync(runtime), PeerLost);
    fails = false;
    state.restore();
    then({runtime, own, state, model->weight, committed});
  });
}

TEST(ElasticWorlds, AFailureInTheMidstOfASynchronisationTearsALightState) {
  RankWords words;
  fail_in_sync(3, [&](const Torn& torn) {
    if (torn.rank() == 0) {  // its process is lost: another one takes its place
      torch::nn::Linear model(2, 1);
      torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.1));
      const bool fails = false;
      State fresh(
          {{"model", model}, {"optimizer", optimizer}, {"loss", std::make_shared<LostInSync>(fails)}});
      words.of([&] { fresh.sync(torn.runtime); });
    } else {
      words.of([&] { torn.state.sync(torn.runtime); });
    }
  });
  EXPECT_THAT(words.common(2), HasSubstr("from a checkpoint"));
}

TEST(ElasticWorlds, AStateThatWasTornGetsThatOfAnother) {
  std::vector<at::Tensor> weights(2);
  fail_in_sync(3, [&](const Torn& torn) {
    torn.state.sync(torn.runtime);
    EXPECT_EQ(torn.state.commits(), 4);
    weights[static_cast<std::size_t>(torn.rank())] = torn.weight.detach().clone();
  });
  EXPECT_TRUE(at::equal(weights[0], weights[1]));
}

TEST(ElasticWorlds, AFullCommitIsWholeAfterAFailureInTheMidst) {
  fail_in_sync(1, [](const Torn& torn) {
    EXPECT_TRUE(at::equal(torn.weight, torn.committed));
    if (torn.rank() == 0) return;  // it is lost
    torn.state.sync(torn.own);
    EXPECT_EQ(torn.state.commits(), 1);
    EXPECT_TRUE(at::equal(torn.weight, torn.committed));
  });
}

TEST(ElasticWorlds, OtherObjectsAreAMismatchOnAllRanks) {
  RankWords words;
  run_ranks(2, [&](Runtime& runtime) {
    double number = 1;
    float shorter = 1;
    std::string text;
    State state(runtime.topology().rank == 0
                    ? std::vector<std::pair<std::string, Kept>>{{"number", number}}
                    : std::vector<std::pair<std::string, Kept>>{{"number", shorter}, {"text", text}});
    words.of([&] { state.sync(runtime); });
  });
  EXPECT_THAT(words.common(2), HasSubstr("'number' a value of 4 bytes"));
}

}  // namespace
}  // namespace rueda::elastic
