// SPDX-License-Identifier: Apache-2.0
// A submission while the background thread has it.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/submissions/handle_state.h"
#include "core/engine/submissions/streaming_progress.h"
#include "core/engine/submissions/submission.h"
#include "core/observe/recorder.h"

namespace rueda {

struct PendingName;

// Purpose: one operation from the submit queue to its completion. Owned by the background thread; a Work may
// read it, write the memory it names, and set the output of `handle`.
struct Entry {
  explicit Entry(std::shared_ptr<HandleState> state)
      : shared_request(state, &state->submission.request), handle(std::move(state)) {}
  Entry(SharedRequest request, std::shared_ptr<HandleState> state)
      : shared_request(std::move(request)), handle(std::move(state)) {}

  SharedRequest shared_request;  // one of a group: in the submission of the first
  std::shared_ptr<HandleState> handle;
  Flight flight;                            // from the background thread's acceptance on
  PendingName* pending_name = nullptr;      // its name in the PendingTable, from then to completion
  std::atomic<bool>* name_taken = nullptr;  // of NamesInFlight, from submission to completion
  bool joined = false;                      // see joined_contribution.h
  bool calls_out = false;                   // its Work calls the program's code
  StreamingProgress* flow = nullptr;        // in a Plan's first Entry: streaming of all its tensors

  const Request& request() const { return *shared_request; }
  Submission& submission() { return handle->submission; }
  const Submission& submission() const { return handle->submission; }
};

// One for each operation of a group, in its order; the first one's Request takes in the others'.
std::vector<Entry> entries_of_group(std::vector<std::shared_ptr<HandleState>> states);

// Tells who waits for it how it ended, and leaves what owns its tensors with the Handle.
void conclude(Entry& entry, const Status& status);

// The output of an operation that finds its own size: by the submission's `allocate`, else plain host memory
// that the Handle owns. Throws WorkFailure.
TensorView allocate_output(Entry& entry, const Shape& shape);

}  // namespace rueda
