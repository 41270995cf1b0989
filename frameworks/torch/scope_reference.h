// SPDX-License-Identifier: Apache-2.0
// The Scope of an object that may outlive its Runtime.
#pragma once

#include <cstdint>
#include <optional>

#include "core/rueda.h"

namespace rueda {

// Purpose: where an object's operations take place. In the default Runtime that is all ranks, or the same
// ranks, of whichever is the default now: after shutdown() and init() the object goes on with the next, if it
// has the process set. A value.
class ScopeReference {
 public:
  explicit ScopeReference(const Scope& scope) {
    const bool of_default = is_initialized() && &scope.runtime() == &default_runtime();
    if (of_default) job_ = jobs_begun();
    if (!of_default || scope.process_set() != kWorld) scope_ = scope;
  }
  // Throws NotInitialized where there is no such job any more.
  Scope get() const {
    if (!scope_) return Scope();
    return job_ == 0 ? *scope_ : in_present_job(*scope_, job_);
  }

 private:
  std::optional<Scope> scope_;  // none: the default
  std::uint64_t job_ = 0;       // of the default Runtime; 0: of another, which the caller keeps
};

}  // namespace rueda
