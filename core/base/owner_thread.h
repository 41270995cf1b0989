// SPDX-License-Identifier: Apache-2.0
// Asserts that an object is used by one thread only.
#pragma once

#include <thread>

#include "core/base/error.h"

namespace rueda {

// Purpose: a member of classes that one thread owns. The first check binds it to the calling thread; a later
// one from another thread is our bug. Costs a few nanoseconds, so it is always on.
class OwnerThread {
 public:
  void check() const {
    if (owner_ == std::thread::id{}) owner_ = std::this_thread::get_id();
    RUEDA_ASSERT(owner_ == std::this_thread::get_id());
  }

 private:
  mutable std::thread::id owner_;
};

}  // namespace rueda
