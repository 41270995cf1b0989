// SPDX-License-Identifier: Apache-2.0
#include "rueda/training.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/observe/training/training_record.h"

namespace rueda {

PhaseScope::PhaseScope(Phase phase)
    : phase_(phase),
      before_(TrainingRecord::of_process().begin_phase(phase)),
      has_samples_(phase == Phase::data) {}

PhaseScope::~PhaseScope() {
  TrainingRecord& record = TrainingRecord::of_process();
  if (has_samples_) {
    record.leave_data(before_);
  } else {
    record.leave_phase(phase_, before_);
  }
}

void log_scalar(std::string_view tag, double value, std::int64_t step) {
  TrainingRecord::of_process().log(tag, value, step);
}

void describe_training(std::int64_t total_steps, std::int64_t samples_per_step, std::int64_t steps_done) {
  if (total_steps < 0 || samples_per_step < 0)
    refuse(fmt::format("describe_training: {} steps of {} samples; both are 0 or more", total_steps,
                       samples_per_step));
  TrainingRecord::of_process().set_run(static_cast<std::uint64_t>(total_steps),
                                       static_cast<std::uint64_t>(samples_per_step), steps_done);
}

void end_step() { TrainingRecord::of_process().end_step_of_program(); }

}  // namespace rueda
