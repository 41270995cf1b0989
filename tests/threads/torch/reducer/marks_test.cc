// SPDX-License-Identifier: Apache-2.0
// The phases and steps that optimizers mark, of one rank: the record is of the process.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "core/observe/training/training_record.h"
#include "rueda/torch/reducer/gradient_reducer.h"
#include "rueda/torch/sharding/sharded_model.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "rueda/training.h"
#include "tests/support/training/layered_model.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using torch::optim::SGDOptions;

// Purpose: the marks since it was made, beginning in `forward`. Used by one thread.
class Marks {
 public:
  Marks() {
    TrainingRecord::of_process().end_step();
    const TrainingReading now = *read_training_page(TrainingRecord::of_process().page());
    spans_ = now.spans_written;
    step_ = now.step;
  }

  std::string phases() const {
    std::string found;
    const auto reading = read_training_page(TrainingRecord::of_process().page(), spans_);
    for (const PhaseSpan& span : reading->spans) found += fmt::format("{} ", to_string(span.phase));
    return found;
  }
  Phase present() const { return read_training_page(TrainingRecord::of_process().page())->phase; }
  std::uint64_t steps() const {
    return read_training_page(TrainingRecord::of_process().page())->step - step_;
  }

 private:
  std::uint64_t spans_;
  std::uint64_t step_;
};

TEST(Marks, AStepOfTwoPasses) {
  run_on_one_host(1, [](Runtime& runtime) {
    for (const bool in_backward : {false, true}) {
      const at::Tensor parameter = make_parameter({5}, 1);
      GradientReducer reducer(
          {parameter}, {.backward_passes_per_step = 2, .synchronize_in_backward = in_backward}, runtime);
      const Marks marks;
      for (int i = 0; i < 2; ++i) {
        parameter.sum().backward();
        parameter.sum().backward();
        EXPECT_TRUE(reducer.before_step());
        reducer.after_step();
        parameter.mutable_grad().reset();
      }
      EXPECT_EQ(
          marks.phases(),
          "forward backward forward backward wait other step forward backward forward backward wait other "
          "step ");
      EXPECT_EQ(marks.steps(), 2U);
    }
  });
}

// Time between the pass and the optimizer is not the optimizer's. Nor is time before the next samples the
// model's.
TEST(Marks, BetweenThePartsOfAStepThePhaseIsOther) {
  run_on_one_host(1, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, {}, runtime);
    const Marks marks;
    for (int i = 0; i < 2; ++i) {
      { const PhaseScope samples(Phase::data); }
      parameter.sum().backward();
      reducer.synchronize();
      EXPECT_EQ(marks.present(), Phase::other);
      EXPECT_TRUE(reducer.before_step());
      EXPECT_EQ(marks.present(), Phase::step);
      reducer.after_step();
      EXPECT_EQ(marks.present(), Phase::other);
    }
    EXPECT_EQ(marks.phases(),
              "forward data forward backward wait other step other data forward backward wait other step ");
    EXPECT_EQ(marks.steps(), 2U);
  });
}

TEST(Marks, AStepWithoutABackwardPass) {
  run_on_one_host(1, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, {}, runtime);
    const Marks marks;
    parameter.mutable_grad() = at::ones({5}, parameter.options());
    EXPECT_TRUE(reducer.before_step());
    reducer.after_step();
    EXPECT_EQ(marks.phases(), "forward wait other step ");
  });
}

TEST(Marks, RanksThatStepByThemselves) {
  run_on_one_host(1, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    GradientReducer reducer({parameter}, {.schedule = SyncSchedule::local_sgd(2)}, runtime);
    const Marks marks;
    for (int i = 0; i < 2; ++i) {
      parameter.sum().backward();
      EXPECT_TRUE(reducer.before_step());
      reducer.after_step();
    }
    EXPECT_EQ(marks.phases(), "forward backward step forward backward step wait step ");
    EXPECT_EQ(marks.steps(), 2U);
  });
}

TEST(Marks, AShardedOptimizer) {
  run_on_one_host(1, [](Runtime& runtime) {
    const at::Tensor parameter = make_parameter({5}, 1);
    ShardedOptimizer<torch::optim::SGD> optimizer(std::vector<at::Tensor>{parameter}, SGDOptions(0.1), {},
                                                  runtime);
    const Marks marks;
    parameter.sum().backward();
    optimizer.step();
    EXPECT_EQ(marks.phases(), "forward backward wait other step wait step wait step ");
    EXPECT_EQ(marks.steps(), 1U);
  });
}

TEST(Marks, AShardedModel) {
  run_on_one_host(1, [](Runtime& runtime) {
    LayeredModel model(3, false);
    ShardedModel<torch::optim::SGD> shards(model, {.units = model.units()}, SGDOptions(0.1), runtime);
    model.runner = shards.runner();
    const Marks marks;
    shards.run([&] { return model.loss(make_batch(0, 6)); }).backward();
    shards.step();
    EXPECT_EQ(marks.phases(), "forward backward wait other step wait step wait step ");
    EXPECT_EQ(marks.steps(), 1U);
  });
}

}  // namespace
}  // namespace rueda
