// SPDX-License-Identifier: Apache-2.0
// The error of a job that cannot start.
#pragma once

#include <string>

#include "core/base/error.h"

namespace rueda {

// `words` name the cause and the remedy.
[[noreturn]] inline void cannot_start(const std::string& words) {
  throw BackendError(Status::backend_error("init: " + words));
}

}  // namespace rueda
