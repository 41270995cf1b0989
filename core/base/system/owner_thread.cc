// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/owner_thread.h"

#include <utility>

namespace rueda {
namespace {

constinit thread_local ThreadIdentity acting_as = nullptr;  // null: as itself

}  // namespace

ThreadIdentity thread_identity() { return acting_as != nullptr ? acting_as : &acting_as; }

ActingAs::ActingAs(ThreadIdentity other) : before_(std::exchange(acting_as, other)) {}

ActingAs::~ActingAs() { acting_as = before_; }

}  // namespace rueda
