// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/training_marks.h"

#include <atomic>

#include "core/observe/training/training_record.h"
#include "core/observe/training/training_wait.h"
#include "frameworks/torch/reducer/gradient_hooks.h"

namespace rueda {
namespace {

std::atomic<bool> has_reduced{false};  // since the last step
std::atomic<int> last_pass{-1};        // that has reduced
std::atomic<int> last_step_pass{-1};   // in which an optimizer has stepped

bool is_training_loop() { return is_watched() && (is_main_thread() || current_backward_pass() >= 0); }

// A DistributedDataParallel waits for its gradients in an action at the end of the pass, which it adds later
// than this one. So this one runs before it, and the inner one after it.
void mark_wait_behind_pass() {
  at_end_of_backward_pass([] {
    TrainingRecord::of_process().begin_phase(Phase::wait);
    at_end_of_backward_pass([] { TrainingRecord::of_process().leave_phase(Phase::wait, Phase::other); });
  });
}

void end_step(bool counted) {
  if (has_reduced.exchange(false) && !counted) TrainingRecord::of_process().end_unmarked_step();
}

}  // namespace

void mark_group_operation(bool reduces) {
  if (!is_watched()) return;
  const int pass = current_backward_pass();
  if (pass < 0 && reduces && is_main_thread()) has_reduced.store(true);
  if (pass < 0) return;
  has_reduced.store(true);
  if (last_pass.exchange(pass) == pass) return;
  TrainingRecord::of_process().begin_phase(Phase::backward);
  mark_wait_behind_pass();
}

void mark_step_begin() {
  if (!is_training_loop() || current_backward_pass() >= 0 || !has_reduced.load()) return;
  TrainingRecord::of_process().begin_phase(Phase::step);
}

// The steps of many optimizers in one backward pass are one, and end with it.
void mark_step_end(bool counted) {
  if (!is_training_loop()) return;
  const int pass = current_backward_pass();
  if (pass < 0) return end_step(counted);
  if (last_step_pass.exchange(pass) == pass) return;
  at_end_of_backward_pass([counted] {
    if (inside_another_backward_pass()) return;
    at_end_of_backward_pass([counted] { end_step(counted); });
  });
}

}  // namespace rueda
