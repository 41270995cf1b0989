// SPDX-License-Identifier: Apache-2.0
// What all bindings of operations have in common.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "python/src/python_lock.h"
#include "rueda/process_set.h"

namespace rueda::python {

// What waits, or makes something large, does not hold Python's lock. A submission does neither, and keeps it.
using NoPythonLock = pybind11::call_guard<WithoutPythonLock>;

// Python's ProcessSet, or None for all ranks. Optional, because pybind11 needs longer to make a null pointer
// of None than all else of a call.
using Members = std::optional<const ProcessSet*>;

// Where an operation takes place.
inline Scope scope_of(const Members& set) { return set ? Scope(**set) : Scope(); }

}  // namespace rueda::python
