// SPDX-License-Identifier: Apache-2.0
#include "core/base/owner_thread.h"

#include <utility>

namespace rueda {
namespace {

// Null: as itself. Initial-exec: asked for in each step, and a program that loads the library late has room
// for some bytes.
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadIdentity acting_as = nullptr;

}  // namespace

ThreadIdentity thread_identity() { return acting_as != nullptr ? acting_as : &acting_as; }

ActingAs::ActingAs(ThreadIdentity other) : before_(std::exchange(acting_as, other)) {}

ActingAs::~ActingAs() { acting_as = before_; }

}  // namespace rueda
