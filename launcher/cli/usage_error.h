// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace rueda {

// The user asked for something that cannot be; what() is one line that says what and the remedy. Exit
// status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace rueda
