// SPDX-License-Identifier: Apache-2.0
// The parts of rueda._torch.
#pragma once

#include <pybind11/pybind11.h>

#include "core/process_set.h"

namespace rueda::python {

void bind_operations(pybind11::module_& module);
void bind_state(pybind11::module_& module);
void bind_gradient_reducer(pybind11::module_& module);
void bind_parameter_shards(pybind11::module_& module);
void bind_sync_batch_norm(pybind11::module_& module);

// What waits, or takes a lock of the Runtime, does not hold Python's.
using NoPythonLock = pybind11::call_guard<pybind11::gil_scoped_release>;

// Where an operation takes place; null: all ranks.
inline Scope scope_of(const ProcessSet* set) { return set ? Scope(*set) : Scope(); }

}  // namespace rueda::python
