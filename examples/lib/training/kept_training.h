// SPDX-License-Identifier: Apache-2.0
// The parts of a training that outlive changes of its ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "examples/lib/reporting/run_report.h"
#include "examples/lib/training/options/options.h"
#include "examples/lib/training/step_history.h"
#include "examples/lib/training/step_optimizer.h"
#include "examples/lib/training/task.h"
#include "rueda/torch/elastic/state.h"

namespace rueda::examples {

// The position of a training. A checkpoint has it besides the model and the optimizer's state.
struct TrainingPosition {
  std::int64_t step = 0;      // how many have been done
  std::uint64_t samples = 0;  // that have been read; those of all ranks
  StepHistory history;
};

// Purpose: position, evaluations and optimizer of a training. With --elastic they and the model outlive a
// loss of ranks: all ranks go on from the last commit. Made by the main thread after rueda::init() and
// Task::move_to().
class KeptTraining {
 public:
  KeptTraining(Task& task, const TrainOptions& options);

  // Made at the first call, which is collective, but not in an elastic job.
  StepOptimizer& optimizer();
  // Calls `train` once; with --elastic again after each change of the ranks (elastic::run). Collective.
  void run(const std::function<void()>& train);
  // After a step: all is kept as it is. Without --elastic it does nothing.
  void commit();

  TrainingPosition position;
  std::vector<EvaluationPoint> evaluations;
  // The number of steps at the last decision on evaluation and checkpoint.
  std::int64_t last_meeting = 0;
  bool begun = false;  // the training has its start: a checkpoint, or the first evaluation

 private:
  Task& task_;
  const TrainOptions& options_;
  std::unique_ptr<StepOptimizer> optimizer_;
  std::optional<elastic::State> state_;  // with --elastic
};

}  // namespace rueda::examples
