// SPDX-License-Identifier: Apache-2.0
// Commits of an elastic::State: full and light ones, and how exactly restore() returns to them.
#include "rueda/torch/elastic/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/runtime.h"
#include "rueda/torch/collectives/operations.h"
#include "tests/support/words_of.h"
#include "tests/support/worlds/memory_world.h"
#include "tests/threads/torch/elastic/trained.h"

namespace rueda::elastic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using torch::optim::SGD;

// `body(runtime)` on one rank.
void alone(const std::function<void(Runtime&)>& body) { run_ranks(1, body); }

template <class Opt>
class CommitsWith : public testing::Test {};
using Optimizers = testing::Types<SGD, torch::optim::AdamW, torch::optim::Adam, torch::optim::RMSprop,
                                  torch::optim::Adagrad, FusedAdamW, Lamb, Lars>;
TYPED_TEST_SUITE(CommitsWith, Optimizers);

TYPED_TEST(CommitsWith, AreLightFromTheSecondStepOn) {
  alone([](Runtime& runtime) {
    Trained<TypeParam> trained(runtime);
    std::vector<bool> kinds;
    for (int i = 0; i < 4; ++i) kinds.push_back(trained.train(1).state->is_light());
    EXPECT_THAT(kinds, ElementsAre(false, true, true, true));
    EXPECT_EQ(trained.state->commits(), 4);
  });
}

TYPED_TEST(CommitsWith, AreRestoredExactlyAfterAFailureInTheBackwardPass) {
  for (const int steps : {1, 5}) {
    alone([&](Runtime& runtime) {
      Trained<TypeParam> trained(runtime);
      trained.train(steps);
      ASSERT_EQ(trained.state->is_light(), steps > 1);
      const auto committed = trained.everything();
      trained.backward();  // changes buffers, and draws random numbers
      trained.batch = 77;
      trained.log = "lost";
      trained.table = at::ones({1});
      trained.optimizer->param_groups()[0].options().set_lr(5.0);
      trained.optimizer->synchronize();
      EXPECT_EQ(trained.differing(committed), "batch generator log model optimizer table ");
      for (int time = 0; time < 2; ++time) {
        trained.state->restore();
        EXPECT_EQ(trained.differing(committed), "");
        trained.table.add_(1);  // the kept copy does not change with it
        trained.state->restore();
        EXPECT_EQ(trained.differing(committed), "");
      }
      for (const at::Tensor& each : trained.model->parameters()) EXPECT_FALSE(each.grad().defined());
    });
  }
}

TYPED_TEST(CommitsWith, UndoStepsAfterAFullOne) {
  alone([](Runtime& runtime) {
    Trained<TypeParam> trained(runtime);
    trained.train(1);
    const auto committed = trained.everything();
    for (int time = 0; time < 2; ++time) {
      trained.step();
      trained.step();
      EXPECT_EQ(trained.differing(committed), "batch generator log model optimizer table ");
      trained.state->restore();
      EXPECT_EQ(trained.differing(committed), "");
    }
  });
}

TYPED_TEST(CommitsWith, LeadTrainingToTheSameBitsWithAndWithoutFailures) {
  std::map<std::string, std::string> undisturbed;
  for (const bool fails : {false, true}) {
    alone([&](Runtime& runtime) {
      Trained<TypeParam> trained(runtime);
      for (int i = 0; i < 5; ++i) {
        trained.train(1);
        if (!fails) continue;
        trained.backward();
        trained.optimizer->synchronize();
        trained.state->restore();
      }
      if (!fails) undisturbed = trained.everything();
      EXPECT_EQ(trained.differing(undisturbed), "");
    });
  }
}

TYPED_TEST(CommitsWith, KeepTheStepThatFollowsALightOne) {
  alone([](Runtime& runtime) {
    Trained<TypeParam> trained(runtime);
    trained.train(4);
    trained.step();
    const at::Tensor stepped = trained.model->parameters()[0].clone();
    trained.state->restore();
    EXPECT_EQ(trained.batch, 4);
    EXPECT_TRUE(at::equal(trained.model->parameters()[0], stepped));
  });
}

TEST(Commits, AreFullAfterSeveralStepsOrNone) {
  for (const int steps : {0, 2, 3}) {
    alone([&](Runtime& runtime) {
      Trained<SGD> trained(runtime);
      ASSERT_TRUE(trained.train(3).state->is_light());
      for (int i = 0; i < steps; ++i) trained.step();
      trained.state->commit();
      EXPECT_FALSE(trained.state->is_light());
      EXPECT_FALSE(trained.train(1).state->is_light());
      EXPECT_TRUE(trained.train(1).state->is_light());
    });
  }
}

TEST(Commits, AreFullWithoutAnOptimizerThatCountsItsSteps) {
  torch::nn::Linear model(2, 1);
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  State of_model({{"model", model}}), of_both({{"model", model}, {"optimizer", optimizer}});
  for (int i = 0; i < 4; ++i) {
    model->forward(at::ones({1, 2})).sum().backward();
    optimizer.step();
    of_model.commit();
    of_both.commit();
    EXPECT_FALSE(of_model.is_light());
    EXPECT_FALSE(of_both.is_light());
  }
  const at::Tensor committed = model->weight.detach().clone();
  optimizer.step();
  of_both.restore();
  EXPECT_TRUE(at::equal(model->weight, committed));
}

TEST(Commits, AreFullWhereAnOperationLiesBetweenStepAndCommit) {
  alone([](Runtime& runtime) {
    Trained<SGD> trained(runtime);
    for (int i = 0; i < 4; ++i) {
      allreduce(at::ones({1}), "before", {}, runtime);
      trained.train(1);
    }
    EXPECT_TRUE(trained.state->is_light());
    trained.step();
    allreduce(at::ones({1}), "between", {}, runtime);
    trained.state->commit();
    EXPECT_FALSE(trained.state->is_light());
    EXPECT_FALSE(trained.train(1).state->is_light());
  });
}

TEST(Commits, OfTwoOptimizersAreLightWhereBothHaveReducedBeforeTheFirstSteps) {
  alone([](Runtime& runtime) {
    torch::nn::Linear first(2, 1), second(2, 1);
    DistributedOptimizer<SGD> one(first->parameters(), torch::optim::SGDOptions(0.1), {}, runtime);
    DistributedOptimizer<SGD> other(second->parameters(), torch::optim::SGDOptions(0.1), {}, runtime);
    State state({{"first", first}, {"second", second}, {"one", one}, {"other", other}});
    std::vector<bool> kinds;
    for (const int stepping : {2, 2, 2, 1, 2, 2}) {
      one.zero_grad();
      other.zero_grad();
      (first->forward(at::ones({1, 2})) + second->forward(at::ones({1, 2}))).sum().backward();
      one.synchronize();
      other.synchronize();
      one.step();
      if (stepping == 2) other.step();
      state.commit();
      kinds.push_back(state.is_light());
    }
    EXPECT_THAT(kinds, ElementsAre(false, true, true, false, false, true));
  });
}

TEST(Commits, AreFullWhereTheScheduleChangesParametersAfterTheStep) {
  for (const SyncSchedule schedule : {SyncSchedule::local_sgd(1), SyncSchedule::one_step_late()}) {
    alone([&](Runtime& runtime) {
      Trained<SGD> trained(runtime, {.schedule = schedule});
      trained.train(4);
      EXPECT_FALSE(trained.state->is_light());
      trained.optimizer->flush();
    });
  }
}

// State of a class that Rueda does not know.
struct OwnState : public torch::optim::OptimizerCloneableParamState<OwnState> {
  TORCH_ARG(at::Tensor, sum);

 public:
  void serialize(torch::serialize::InputArchive& archive) override { archive.read("sum", sum(), true); }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    archive.write("sum", sum(), true);
  }
};

class OwnOptimizer : public UpdateRule<LarsOptions, OwnState> {
 public:
  using UpdateRule::UpdateRule;

 protected:
  void update(at::Tensor& parameter, const at::Tensor& gradient, OwnState& state,
              const LarsOptions& options) override {
    if (!state.sum().defined()) state.sum(at::zeros_like(parameter));
    state.sum().add_(gradient);
    parameter.sub_(state.sum(), options.lr());
  }
};
inline auto options_of(const OwnOptimizer*) { return LarsOptions(0.1); }

TEST(Commits, KeepStateOfAnUnknownClassAsBytes) {
  alone([](Runtime& runtime) {
    torch::nn::Linear model(2, 1);
    DistributedOptimizer<OwnOptimizer> optimizer(model->parameters(), LarsOptions(0.1), {}, runtime);
    State state({{"model", model}, {"optimizer", optimizer}});
    const auto step = [&] {
      optimizer.zero_grad();
      model->forward(at::ones({1, 2})).sum().backward();
      optimizer.step();
    };
    for (int i = 0; i < 4; ++i) {
      step();
      state.commit();
      EXPECT_FALSE(state.is_light());
    }
    const std::string committed = content_of(optimizer);
    const at::Tensor weight = model->weight.detach().clone();
    step();
    EXPECT_TRUE(content_of(optimizer) != committed);
    state.restore();
    EXPECT_TRUE(content_of(optimizer) == committed);
    EXPECT_TRUE(at::equal(model->weight, weight));
  });
}

TEST(Commits, KeepLargeBuffersThatChange) {
  alone([](Runtime& runtime) {
    Trained<SGD> trained(runtime);
    at::Tensor mask = trained.model->register_buffer("mask", at::ones({1 << 17}));
    trained.train(3);
    mask[3].fill_(0);
    trained.train(1);
    ASSERT_TRUE(trained.state->is_light());
    mask[3].fill_(7);
    trained.state->restore();
    EXPECT_EQ(mask[3].item<int>(), 0);
    trained.train(1);
    mask[4].fill_(7);
    trained.state->restore();
    EXPECT_EQ(mask[3].item<int>(), 0);
    EXPECT_EQ(mask[4].item<int>(), 1);
  });
}

TEST(Commits, CopyAModelThatTheProgramAverages) {
  alone([](Runtime& runtime) {
    Trained<SGD> trained(runtime);
    torch::nn::Linear average(3, 4), frozen(2, 2);
    for (const at::Tensor& each : average->parameters()) each.set_requires_grad(false);
    for (const at::Tensor& each : frozen->parameters()) each.set_requires_grad(false);
    State state({{"model", trained.model},
                 {"optimizer", *trained.optimizer},
                 {"average", average},
                 {"frozen", frozen}});
    const auto look = [&] {
      const at::NoGradGuard no_grad;
      average->weight.lerp_(trained.model->parameters()[0], 0.5);
    };
    for (int step = 0; step < 4; ++step) {
      look();
      trained.step();
      state.commit();
    }
    ASSERT_TRUE(state.is_light());
    const at::Tensor committed = average->weight.clone();
    for (int time = 0; time < 2; ++time) {
      look();
      trained.backward();
      trained.optimizer->synchronize();
      state.restore();
      EXPECT_TRUE(at::equal(average->weight, committed));
    }
  });
}

TEST(Commits, TakeTensorsThatAreUndefined) {
  at::Tensor tensor;
  State state({{"tensor", tensor}});
  tensor = at::ones({2});
  state.restore();
  EXPECT_FALSE(tensor.defined());
}

// An object with the functions of LibTorch's archives.
class Archivable {
 public:
  std::vector<std::int64_t> numbers{1, 2};
  void save(torch::serialize::OutputArchive& archive) const { archive.write("numbers", numbers); }
  void load(torch::serialize::InputArchive& archive) {
    c10::IValue value;
    archive.read("numbers", value);
    numbers = value.toIntVector();
  }
};

struct Plain {
  double loss = 1;
  enum class Phase { early, late } phase = Phase::early;
};

TEST(Commits, KeepObjectsOfManyKinds) {
  Archivable archivable;
  Plain plain;
  bool flag = false;
  auto shared = std::make_shared<torch::nn::LinearImpl>(1, 1);
  State state({{"archivable", archivable}, {"plain", plain}, {"flag", flag}, {"shared", shared}});
  const at::Tensor weight = shared->weight.detach().clone();
  archivable.numbers = {3};
  plain = {2, Plain::Phase::late};
  flag = true;
  shared->weight.detach().zero_();
  state.restore();
  EXPECT_THAT(archivable.numbers, ElementsAre(1, 2));
  EXPECT_EQ(plain.loss, 1);
  EXPECT_EQ(plain.phase, Plain::Phase::early);
  EXPECT_FALSE(flag);
  EXPECT_TRUE(at::equal(shared->weight, weight));
}

// Purpose: notes which of its functions are called.
class OwnPart : public Part {
 public:
  explicit OwnPart(std::vector<std::string>& calls) : calls_(calls) {}
  std::string describe() const override { return "my own"; }
  void save() override { calls_.push_back("save"); }
  void restore() override { calls_.push_back("restore"); }
  void sync(Rank root, const Scope&) override { calls_.push_back("sync from " + std::to_string(root)); }
  void ranks_changed() override { calls_.push_back("ranks changed"); }

 private:
  std::vector<std::string>& calls_;
};

TEST(Commits, UseAPartOfTheProgramsOwn) {
  std::vector<std::string> calls;
  State state({{"own", std::make_shared<OwnPart>(calls)}});
  state.on_reset([&] { calls.push_back("callback"); });
  state.commit();
  state.restore();
  state.ranks_changed();
  alone([&](Runtime& runtime) { state.sync(runtime); });
  EXPECT_THAT(calls, ElementsAre("save", "restore", "ranks changed", "callback", "sync from 0", "save"));
}

TEST(Commits, HearOfEachChangeOnce) {
  std::optional<MembershipChange> change;
  State state({});
  state.hear_by([&] { return change; });
  state.commit();
  change = MembershipChange{.removed = true, .since = 1.0};
  EXPECT_THAT(words_of<WorkersChanged>([&] { state.commit(); }), HasSubstr("workers are lost"));
  EXPECT_EQ(state.commits(), 2);
  state.keep_uncommitted();  // commit() has kept all
  EXPECT_EQ(state.commits(), 2);
  state.commit();
  change = MembershipChange{.added = true, .removed = true, .since = 2.0};
  EXPECT_THAT(words_of<WorkersChanged>([&] { state.check_host_updates(); }),
              HasSubstr("workers wait to join"));
  state.keep_uncommitted();
  EXPECT_EQ(state.commits(), 4);
}

TEST(Commits, RefuseOneNameForTwoObjects) {
  int one = 1, other = 2;
  EXPECT_THAT(words_of([&] {
                State({{"n", one}, {"n", other}});
              }),
              HasSubstr("two objects have the name 'n'"));
}

}  // namespace
}  // namespace rueda::elastic
