// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/training_marks.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "core/observe/training/training_record.h"
#include "frameworks/torch/reducer/gradient_hooks.h"

namespace rueda {
namespace {

std::atomic<bool> has_reduced{false};  // since the last step
std::atomic<int> last_pass{-1};        // that has reduced

bool is_watched() {
  static const bool is_rank = std::getenv("RUEDA_AGENT_LINE") != nullptr;
  return is_rank;
}

bool is_training_loop() { return is_watched() && (::gettid() == ::getpid() || current_backward_pass() >= 0); }

// A DistributedDataParallel waits for its gradients in an action at the end of the pass, which it adds later
// than this one. So this one runs before it, and the inner one after it.
void mark_wait_behind_pass() {
  at_end_of_backward_pass([] {
    TrainingRecord::of_process().begin_phase(Phase::wait);
    at_end_of_backward_pass([] { TrainingRecord::of_process().leave_phase(Phase::wait, Phase::backward); });
  });
}

}  // namespace

void mark_group_operation() {
  if (!is_watched()) return;
  const int pass = current_backward_pass();
  if (pass < 0) return;
  has_reduced.store(true);
  if (last_pass.exchange(pass) == pass) return;
  TrainingRecord::of_process().begin_phase(Phase::backward);
  mark_wait_behind_pass();
}

GroupWait::GroupWait() {
  if (is_training_loop()) before_ = TrainingRecord::of_process().begin_phase(Phase::wait);
}

GroupWait::~GroupWait() {
  if (before_) TrainingRecord::of_process().leave_phase(Phase::wait, *before_);
}

void mark_step_begin() {
  if (is_training_loop() && has_reduced.load()) TrainingRecord::of_process().begin_phase(Phase::step);
}

void mark_step_end() {
  if (is_training_loop() && has_reduced.exchange(false)) TrainingRecord::of_process().end_unmarked_step();
}

}  // namespace rueda
