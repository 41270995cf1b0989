// SPDX-License-Identifier: Apache-2.0
// Waits for operations, as the training loop spends its time.
#pragma once

#include <optional>

#include "rueda/training.h"

namespace rueda {

// ruedarun has started this process, and may show its phases to somebody.
bool is_watched();
// Threads beside the main one are no part of the training loop.
bool is_main_thread();

// Purpose: this thread waits for operations; the phase is `wait` meanwhile. It does nothing in a process that
// is not watched, but within a pause: whether ranks pause or wait decides about their stalls. On its stack.
class TrainingWait {
 public:
  // `in_backward_pass`: the thread is part of the training loop, whichever it is.
  explicit TrainingWait(bool in_backward_pass = false);
  ~TrainingWait();
  TrainingWait(const TrainingWait&) = delete;
  TrainingWait& operator=(const TrainingWait&) = delete;

 private:
  std::optional<Phase> before_;  // nothing: it is no wait of the training loop
};

}  // namespace rueda
