// SPDX-License-Identifier: Apache-2.0
// What people see of a training while it runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "examples/lib/show/event_file.h"
#include "examples/lib/show/progress.h"
#include "examples/lib/training/options.h"
#include "examples/lib/training/task.h"
#include "examples/lib/training/trainer.h"

namespace rueda::examples {

// Purpose: shows the steps and writes TensorBoard's file on rank 0; does nothing on the others. Made after
// rueda::init() by the main thread; lives during one run.
class Reporter {
 public:
  Reporter(const TrainOptions& options, std::int64_t steps_done);

  void step(const StepReport& report, const std::vector<std::string>& part_names);
  void evaluation(const std::vector<Metric>& found, std::int64_t step);
  // Evaluation or checkpoint is over.
  void go_on();
  // A line of its own.
  void say(const std::string& line);

 private:
  double samples_per_step_ = 0;
  std::unique_ptr<EventFile> events_;  // null on other ranks
  std::unique_ptr<Progress> progress_;
};

}  // namespace rueda::examples
