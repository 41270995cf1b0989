// SPDX-License-Identifier: Apache-2.0
// The error of a training loop's call at a time when it is not possible.
#pragma once

#include <string>

#include "core/base/error.h"

namespace rueda {

// A backward pass after the last of its step, or a change of gradients while they are being reduced. In
// Python it is an AssertionError, too, which Horovod raises there.
class OutOfTurn : public InvalidArgument {
 public:
  explicit OutOfTurn(const std::string& words) : InvalidArgument(Status::invalid_argument(words)) {}
};

}  // namespace rueda
