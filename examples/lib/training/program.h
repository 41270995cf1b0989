// SPDX-License-Identifier: Apache-2.0
// The common part of the mains of all trainers.
#pragma once

#include <functional>

namespace rueda::examples {

// The whole of a main: runs `body` and returns the exit status: the result of `body`; 2 after a UsageError, 1
// after any other exception, each told in one line.
int run_program(const std::function<int()>& body);

}  // namespace rueda::examples
