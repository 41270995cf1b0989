// SPDX-License-Identifier: Apache-2.0
// A Scope for objects that may outlive their job.
#pragma once

#include <memory>

#include "rueda/process_set.h"

namespace rueda {

struct JobReference;

// Purpose: names the ranks for the operations of an object. In the default Runtime it follows the job:
// after shutdown() and init() the object continues with the next job. That job must have the same processes
// and the process set. A plain value.
class ScopeReference {
 public:
  // Refers to `scope`. If its Runtime is the default one, it refers to the present job.
  explicit ScopeReference(const Scope& scope);
  // Returns the Scope. Throws NotInitialized if its job has ended and no equal job has begun.
  Scope get() const;

 private:
  Scope scope_;                              // its job may have ended
  std::shared_ptr<const JobReference> job_;  // null if the caller owns the Runtime
};

}  // namespace rueda
