// SPDX-License-Identifier: Apache-2.0
// C++ exceptions as those that Python programs catch.
#pragma once

#include "core/base/status.h"

namespace rueda::python {

// What synchronize() throws when an operation has failed: rueda.common.exceptions.HorovodInternalError, or
// InvalidOperation, which is one too, where it cannot mean anything.
struct OperationFailed {
  Status status;
};

// Once a process, by the module `rueda._core`: InvalidArgument and NotInitialized become ValueError (a call
// that cannot mean anything), all other errors rueda.common.exceptions.HorovodInternalError, a RuntimeError.
void register_errors();

}  // namespace rueda::python
