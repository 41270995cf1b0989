// SPDX-License-Identifier: Apache-2.0
// The Scope of an object that may outlive its Runtime.
#pragma once

#include <optional>

#include "core/rueda.h"

namespace rueda {

// Purpose: where an object's operations take place. In the default Runtime that is all ranks, or the same
// ranks, of whichever is the default now: after shutdown() and init() the object goes on with the next, if
// that is of the same processes and has the process set. A value.
class ScopeReference {
 public:
  explicit ScopeReference(const Scope& scope) : scope_(scope) {
    if (is_initialized() && &scope.runtime() == &default_runtime()) job_ = present_job();
  }
  // Throws NotInitialized where there is no such job any more.
  Scope get() const { return job_ ? in_present_job(scope_, *job_) : scope_; }

 private:
  Scope scope_;                      // of a job that may have ended
  std::optional<JobReference> job_;  // none: of a Runtime that the caller keeps
};

}  // namespace rueda
