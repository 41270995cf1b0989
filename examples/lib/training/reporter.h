// SPDX-License-Identifier: Apache-2.0
// The messages that people see of a training while it runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/lib/reporting/event_file.h"
#include "examples/lib/reporting/progress.h"
#include "examples/lib/training/options/options.h"
#include "examples/lib/training/task.h"
#include "examples/lib/training/trainer.h"

namespace rueda::examples {

// Purpose: shows the steps, logs scalars and writes TensorBoard's file on rank 0; does nothing on the others.
// A file that can no longer be written is given up with a warning. Made after rueda::init() by the main
// thread; lives during one run.
class Reporter {
 public:
  // `steps_done` by an earlier run; TensorBoard hides later steps of that run.
  Reporter(const TrainOptions& options, std::int64_t steps_done);

  void step(const StepReport& report);
  void evaluation(const std::vector<Metric>& found, std::int64_t step);
  // Evaluation or checkpoint is over.
  void go_on();
  // A line of its own.
  void say(const std::string& line);

 private:
  void add_scalar(const std::string& tag, double value, std::int64_t step);

  const bool shows_;
  const std::int64_t steps_done_;
  const std::filesystem::path tensorboard_;
  double samples_per_step_ = 0;
  std::unique_ptr<EventFile> events_;  // null where nothing is written (any more)
  std::unique_ptr<Progress> progress_;
};

}  // namespace rueda::examples
