// SPDX-License-Identifier: Apache-2.0
// How errors leave a backward pass.
#pragma once

#include <functional>
#include <utility>

#include "core/base/error.h"

namespace rueda {

// From now on what is thrown in Rueda's part of a backward pass leaves it as what `rethrow` makes of it; that
// is called where it has been caught, and throws. Autograd's bindings to another language hand on that
// language's exceptions only. Called once, before any backward pass.
void set_errors_of_backward_passes(std::function<void()> rethrow);

// Where something has been caught: throws it, or what is made of it.
[[noreturn]] void rethrow_from_backward_pass();

// `action`, called by autograd.
template <class Action>
auto from_backward_pass(Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (...) {
    rethrow_from_backward_pass();
  }
}

}  // namespace rueda
