// SPDX-License-Identifier: Apache-2.0
// The common part of all bindings of operations.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "python/src/python_lock.h"
#include "rueda/process_set.h"

namespace rueda::python {

// A function that waits, or makes something large, releases Python's lock. A submission keeps the lock.
using NoPythonLock = pybind11::call_guard<WithoutPythonLock>;

// Python's ProcessSet, or None for all ranks. Optional, because pybind11 needs longer to make a null pointer
// of None than all else of a call.
using Members = std::optional<const ProcessSet*>;

// The scope of an operation.
inline Scope scope_of(const Members& set) { return set ? Scope(**set) : Scope(); }

}  // namespace rueda::python
