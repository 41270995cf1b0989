// SPDX-License-Identifier: Apache-2.0
// Asserts that an object is used by one thread only.
#pragma once

#include "core/base/error.h"

namespace rueda {

// Whom a thread works as: itself, or the thread whose role it has taken over for a while (ActingAs). Two
// threads that are there at the same time have different identities of their own.
using ThreadIdentity = const void*;

ThreadIdentity thread_identity();

// Purpose: while it lives, its thread works as another one, which for that time does not work as itself.
class ActingAs {
 public:
  explicit ActingAs(ThreadIdentity other);
  ~ActingAs();
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;

 private:
  ThreadIdentity before_;
};

// Purpose: a member of classes that one thread owns. The first check binds it to the identity of the calling
// thread; a later one from another thread is our bug. Costs a few nanoseconds, so it is always on.
class OwnerThread {
 public:
  void check() const {
    const ThreadIdentity caller = thread_identity();
    if (owner_ == nullptr) owner_ = caller;
    RUEDA_ASSERT(owner_ == caller);
  }

 private:
  mutable ThreadIdentity owner_ = nullptr;
};

}  // namespace rueda
