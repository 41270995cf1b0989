// SPDX-License-Identifier: Apache-2.0
// What becomes of a checkpoint that cannot be written: a job of one rank.
#include "examples/lib/training/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <rueda/torch.h>
#include "core/default_runtime.h"
#include "examples/lib/training/tasks/mlm_task.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda::examples {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Purpose: has no state that could be saved.
class Forgetful : public StepOptimizer {
 public:
  explicit Forgetful(bool own_state) : own_state_(own_state) {}
  void zero_grad() override {}
  bool is_sync_step() const override { return true; }
  void set_learning_rate(double) override {}
  bool synchronize() override { return true; }
  GradientNorm clip(double) override { return 0.0; }
  void step() override {}
  void flush(double) override {}
  bool has_own_state() const override { return own_state_; }
  std::string save_state() override {
    ++asked;
    throw std::runtime_error("there is no memory for the state");
  }
  void load_state(const std::string&, const LoadOptions&) override {}
  std::int64_t sync_interval() const override { return 1; }
  double drift() const override { return 0; }
  double wait_seconds() const override { return 0; }
  elastic::Kept kept() override { throw std::runtime_error("nothing is kept"); }

  int asked = 0;

 private:
  bool own_state_;
};

// Purpose: a run in a folder of its own.
class TrainingStateTest : public testing::Test {
 protected:
  TrainingStateTest() { init(memory_components(network_, 0, 1, {})); }
  ~TrainingStateTest() override { shutdown(); }

  const ScratchFolder scratch_;
  const std::string output_ = (scratch_.path() / "run").string();
  const std::vector<const char*> flags_{"train_bert", "--task",   "mlm",          "--cache",
                                        "none",       "--output", output_.c_str()};
  const BertOptions options_ = *parse_bert_options(static_cast<int>(flags_.size()), flags_.data());
  MlmTask task_{options_};
  MemoryNetwork network_{1};
};

// All ranks hear of it, in the same words, though it is one that cannot; and nothing is left of it.
TEST_F(TrainingStateTest, AStateThatCannotBeSavedIsAFailureOfAll) {
  for (const bool own_state : {false, true}) {
    TrainingState state(task_, options_);
    state.resume();
    Forgetful optimizer(own_state);
    EXPECT_THAT([&] { state.save({.step = 7}, optimizer, {}); },
                ThrowsMessage<std::runtime_error>(
                    HasSubstr("no checkpoint after step 7: rank 0: there is no memory for the state")));
    EXPECT_EQ(optimizer.asked, 1);
    EXPECT_TRUE(checkpoints_in(options_.checkpoints()).empty());
  }
}

// On every rank, whatever has failed before: others may be waiting in that.
TEST_F(TrainingStateTest, WhereNothingCanBeWrittenTheStateIsAskedForAllTheSame) {
  TrainingState state(task_, options_);
  state.resume();
  std::filesystem::remove_all(options_.checkpoints());
  scratch_.write("run/checkpoints", "a file");
  Forgetful optimizer(false);
  EXPECT_THROW(state.save({.step = 7}, optimizer, {}), std::runtime_error);
  EXPECT_EQ(optimizer.asked, 1);
}

}  // namespace
}  // namespace rueda::examples
