// SPDX-License-Identifier: Apache-2.0
// The Runtime of an object that may outlive it.
#pragma once

#include "core/rueda.h"

namespace rueda {

// Purpose: the Runtime that an object was made with, or, where that was the default one, whichever is the
// default now: after shutdown() and init() the object goes on with the next. A value.
class RuntimeReference {
 public:
  explicit RuntimeReference(Runtime& runtime)
      : runtime_(is_initialized() && &runtime == &default_runtime() ? nullptr : &runtime) {}
  Runtime& get() const { return runtime_ != nullptr ? *runtime_ : default_runtime(); }

 private:
  Runtime* runtime_;  // null: the default
};

}  // namespace rueda
