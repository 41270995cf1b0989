// SPDX-License-Identifier: Apache-2.0
// The Scope of an object that may outlive its Runtime.
#pragma once

#include <optional>

#include "core/rueda.h"

namespace rueda {

// Purpose: where an object's operations take place, or, where that was all ranks of the default Runtime,
// whichever is the default now: after shutdown() and init() the object goes on with the next. A value.
class ScopeReference {
 public:
  explicit ScopeReference(const Scope& scope) {
    const bool follows =
        scope.process_set() == kWorld && is_initialized() && &scope.runtime() == &default_runtime();
    if (!follows) scope_ = scope;
  }
  Scope get() const { return scope_ ? *scope_ : Scope(); }

 private:
  std::optional<Scope> scope_;  // none: the default
};

}  // namespace rueda
