// SPDX-License-Identifier: Apache-2.0
// The Scope of an object that may outlive its job.
#pragma once

#include <memory>

#include "rueda/process_set.h"

namespace rueda {

struct JobReference;

// Purpose: where an object's operations take place. In the default Runtime that is all ranks, or the same
// ranks, of whichever is the default now: after shutdown() and init() the object goes on with the next job,
// if that is of the same processes and has the process set. A value.
class ScopeReference {
 public:
  // Of `scope`: of the default Runtime by its present job, else as it is.
  explicit ScopeReference(const Scope& scope);
  // Throws NotInitialized when there is no such job any more.
  Scope get() const;

 private:
  Scope scope_;                              // of a job that may have ended
  std::shared_ptr<const JobReference> job_;  // null: of a Runtime that the caller keeps
};

}  // namespace rueda
