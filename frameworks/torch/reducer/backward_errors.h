// SPDX-License-Identifier: Apache-2.0
// How errors leave a backward pass.
#pragma once

#include <functional>

namespace rueda {

// From now on an exception in Rueda's part of a backward pass leaves it as the exception that `rethrow`
// throws. `rethrow` is called in the catch block. Autograd's bindings to another language hand on that
// language's exceptions only. Called once, before any backward pass.
void set_errors_of_backward_passes(std::function<void()> rethrow);

// For the handler of exceptions in each function that autograd calls. Throws the caught exception, or its
// translation.
[[noreturn]] void rethrow_from_backward_pass();

}  // namespace rueda
