// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/collectives/scope_reference.h"

#include "core/default_runtime.h"
#include "rueda/rueda.h"

namespace rueda {

ScopeReference::ScopeReference(const Scope& scope) : scope_(scope) {
  if (is_initialized() && &scope.runtime() == &default_runtime())
    job_ = std::make_shared<const JobReference>(present_job());
}

Scope ScopeReference::get() const { return job_ ? in_present_job(scope_, *job_) : scope_; }

}  // namespace rueda
