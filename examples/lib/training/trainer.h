// SPDX-License-Identifier: Apache-2.0
// The training loop, and its measurements.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/lib/training/batch_feed.h"
#include "examples/lib/training/delayed_metrics.h"
#include "examples/lib/training/kept_training.h"
#include "examples/lib/training/options/options.h"
#include "examples/lib/training/step_history.h"
#include "examples/lib/training/step_optimizer.h"
#include "examples/lib/training/stop_request.h"
#include "examples/lib/training/task.h"
#include "rueda/handle.h"

namespace rueda::examples {

// The numbers of a step; told while training on every rank.
struct StepReport {
  std::int64_t step = 0;  // from 0
  double loss = 0;        // of this rank
  NamedNumbers parts;     // of the loss
  double learning_rate = 0;
  double gradient_norm = 0;        // before clipping; 0 without clipping, and if the schedule takes no step
  std::int64_t sync_interval = 1;  // steps from one synchronisation to the next
  double drift = 0;                // of schedule adaptive, at the last
  StepTime time;
};

// The parts that the loop leaves to its caller, on the calling thread of every rank.
class TrainingListener {
 public:
  virtual ~TrainingListener() = default;
  // On a device one step later, or before the next call of another function here.
  virtual void step_done(const StepReport& report) = 0;
  // The model is the same on all ranks now. Collective.
  virtual void evaluation_due(std::int64_t step) = 0;
  // `must`: it is the last thing before the end, so that a failure is one of the training.
  virtual void checkpoint_due(const TrainingPosition& position, StepOptimizer& optimizer, bool must) = 0;
};

// All over the ranks: averages, but for reduced_mb, which is this rank's.
struct TrainingResult {
  TrainingPosition position;
  Stop stop = Stop::none;  // why it ended before options.steps
  double samples_per_second = 0;
  StepSplit split;
  double reduced_mb = 0;  // bytes that this rank gave to allreduce, in 10^6
};

// Purpose: the strongest request of any rank. It travels while the step's gradients do, and costs no time of
// its own. Owner: the training thread. Its destructor waits for the pending vote.
class StopVote {
 public:
  StopVote() = default;
  ~StopVote();
  StopVote(const StopVote&) = delete;
  StopVote& operator=(const StopVote&) = delete;

  void ask(Stop mine);
  Stop result();  // waits; none if nothing was asked

 private:
  std::array<std::int32_t, 1> words_{};
  std::optional<Handle> handle_;
};

// Purpose: one training of a task's model. Evaluations, checkpoints and the end on request come after a step
// in which ranks meet (StepOptimizer::is_sync_step()), so that they change nothing about the training; a
// schedule that synchronises every n-th step puts them off by up to n - 1 steps. On a device the host gives a
// step before it reads the numbers of the one before, so that the device never waits for it; a loss that is
// not finite is then seen a step later, but before anything is made of the model. Made and used by the main
// thread, collective after rueda::init(); ranks that synchronise must have equal parameters.
class Trainer {
 public:
  // Continues from the position of `kept`; the caller loads the optimizer's state. Without `stop` nothing
  // ends it before its last step.
  Trainer(Task& task, const TrainOptions& options, KeptTraining& kept, StopRequest* stop);

  // Throws Diverged.
  TrainingResult run(TrainingListener& listener);

 private:
  // A step that has been given to a device, and its later results: loss, its parts, norm if clipped.
  struct OpenStep {
    StepReport report;
    DelayedMetrics numbers;
  };

  void step(BatchFeed& feed, TrainingListener& listener);
  at::Tensor pass(const TaskBatch& batch, std::int64_t pass, StepReport& report);
  GradientNorm update(StepReport& report);
  void commit(TrainingListener& listener);
  void close(TrainingListener& listener);
  void settle(TrainingListener& listener);
  void check_parameters();
  void judge(const StepReport& report);
  void end_if_any_diverged();
  [[noreturn]] void end_diverged() const;
  Stop wish() const;
  void note(const StepReport& report, TrainingListener& listener);
  Stop act_on_sync(TrainingListener& listener);
  TrainingResult result(Stop stop) const;

  Task& task_;
  const TrainOptions& options_;
  const std::int64_t passes_;
  const at::Device device_;  // where the model is
  KeptTraining& kept_;
  TrainingPosition& position_;  // of it
  StepOptimizer* const optimizer_;
  StopRequest* stop_;
  BatchDump dump_;  // of rank 0
  StopVote vote_;
  Stop agreed_ = Stop::none;
  std::optional<OpenStep> open_;  // the last one; on a device only
  std::int64_t judged_ = 0;       // how many steps have been when the last was judged
  std::string trouble_;           // the value that is not finite on this rank
  bool synced_ = false;           // in the last step
  std::vector<StepTime> times_;   // of the steps of this process
};

// Makes losses that are this rank's the means over all ranks. Collective.
void average_over_ranks(StepHistory& history);

// A number that is not finite poisons the parameters, and with them every later loss. Ranks that synchronise
// all throw this at the same point.
class Diverged : public std::runtime_error {
 public:
  // The message names `what` and the remedy.
  explicit Diverged(const std::string& what);
};

// Throws std::runtime_error naming the ranks with parameters that differ from rank 0's; collective.
void check_equal_on_all_ranks(std::uint64_t hash);

}  // namespace rueda::examples
