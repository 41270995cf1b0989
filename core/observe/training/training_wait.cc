// SPDX-License-Identifier: Apache-2.0
#include "core/observe/training/training_wait.h"

#include <unistd.h>

#include <cstdlib>

#include "core/observe/training/training_record.h"

namespace rueda {

bool is_watched() {
  static const bool is_rank = std::getenv("RUEDA_AGENT_LINE") != nullptr;
  return is_rank;
}

bool is_main_thread() {
  static thread_local const bool is_main = ::gettid() == ::getpid();
  return is_main;
}

TrainingWait::TrainingWait(bool in_backward_pass) {
  TrainingRecord& record = TrainingRecord::of_process();
  const bool counts =
      is_watched() ? in_backward_pass || is_main_thread() : record.is_in_pause() && is_main_thread();
  if (counts) before_ = record.begin_phase(Phase::wait);
}

TrainingWait::~TrainingWait() {
  if (before_) TrainingRecord::of_process().leave_phase(Phase::wait, *before_);
}

}  // namespace rueda
