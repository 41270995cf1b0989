// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/waiters.h"

#include <algorithm>
#include <utility>

#include "core/engine/submissions/handle_state.h"

namespace rueda {

void Waiters::add(HandleState* state) {
  std::lock_guard lock(mutex_);
  states_.push_back(state);
  if (!failure_.ok()) state->complete(failure_, nullptr);
}

void Waiters::remove(HandleState* state) {
  std::lock_guard lock(mutex_);
  states_.erase(std::ranges::find(states_, state));
}

void Waiters::fail(Status status) {
  std::lock_guard lock(mutex_);
  failure_ = std::move(status);
  for (HandleState* state : states_) state->complete(failure_, nullptr);
}

}  // namespace rueda
