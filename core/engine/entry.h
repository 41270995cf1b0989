// SPDX-License-Identifier: Apache-2.0
// A submission while the coordinator has it.
#pragma once

#include <memory>

#include "core/engine/handle_state.h"
#include "core/engine/submission.h"

namespace rueda {

// Purpose: one operation from the submit queue to its completion. Owned by the coordinator; a Work may read
// it, write the memory it names, and set the output of `handle`.
struct Entry {
  Submission submission;
  std::shared_ptr<HandleState> handle;
  bool ghost = false;  // see ghost.h

  const Request& request() const { return submission.request; }
};

// The output of an operation that finds its own size: by the submission's `allocate`, else plain host memory
// that the Handle owns. Throws WorkFailure.
TensorView allocate_output(Entry& entry, const Shape& shape);

}  // namespace rueda
