// SPDX-License-Identifier: Apache-2.0
// A submission while the coordinator has it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/engine/handle_state.h"
#include "core/engine/submission.h"
#include "core/observe/recorder.h"

namespace rueda {

// Purpose: one operation from the submit queue to its completion. Owned by the coordinator; a Work may read
// it, write the memory it names, and set the output of `handle`.
struct Entry {
  Entry() = default;
  Entry(Submission&& submitted, std::shared_ptr<HandleState> handle)
      : shared_request(std::make_shared<const Request>(std::move(submitted.request))),
        submission(std::move(submitted)),
        handle(std::move(handle)) {}

  Entry(SharedRequest request, Submission&& submitted, std::shared_ptr<HandleState> handle)
      : shared_request(std::move(request)), submission(std::move(submitted)), handle(std::move(handle)) {}

  SharedRequest shared_request;
  Submission submission;  // all but its request, which is the one above
  std::shared_ptr<HandleState> handle;
  Flight flight;       // from the coordinator's acceptance on
  bool ghost = false;  // see ghost.h

  const Request& request() const { return *shared_request; }
};

// One for each submission, in the order of a group; the first one's Request holds the others'.
std::vector<Entry> entries_of_group(std::vector<Submission>&& group,
                                    const std::vector<std::shared_ptr<HandleState>>& handles);

// The output of an operation that finds its own size: by the submission's `allocate`, else plain host memory
// that the Handle owns. Throws WorkFailure.
TensorView allocate_output(Entry& entry, const Shape& shape);

}  // namespace rueda
