// SPDX-License-Identifier: Apache-2.0
// C++ exceptions as those that Python programs catch.
#pragma once

#include "rueda/status.h"

namespace rueda::python {

// The exception of synchronize() after a failed operation: rueda.common.exceptions.HorovodInternalError, or
// InvalidOperation, which is one too, if it cannot mean anything.
struct OperationFailed {
  Status status;
};

// In a catch block: makes the caught exception Python's current one. InvalidArgument becomes ValueError (a
// call that cannot mean anything). Other errors of Rueda become classes of rueda.common.exceptions:
// OutOfTurn, InvalidOperation (also for NotInitialized), else HorovodInternalError; an exception of Python's
// is itself; others are thrown again.
void set_python_error();

// The same for all that leaves a function of the modules. Once a process, by `rueda._core`.
void register_errors();

}  // namespace rueda::python
