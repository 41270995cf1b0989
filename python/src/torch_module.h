// SPDX-License-Identifier: Apache-2.0
// The parts of rueda._torch.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <string_view>

#include "python/src/scope.h"
#include "rueda/types.h"

// ReduceOp is bound by enum_: without this each argument would be looked up among the enums of Python's own
// kind first.
template <>
struct pybind11::detail::type_caster_enum_type_enabled<rueda::ReduceOp, void> : std::false_type {};

namespace rueda::python {

using Name = std::optional<std::string_view>;

// Names of different operations do not clash; an operation without a name gets the next number.
std::string name_of(const char* operation, const Name& name, const Scope& scope);

void bind_operations(pybind11::module_& module);
void bind_state(pybind11::module_& module);
void bind_gradient_reducer(pybind11::module_& module);
void bind_parameter_shards(pybind11::module_& module);
void bind_sync_batch_norm(pybind11::module_& module);
void bind_process_group(pybind11::module_& module);

}  // namespace rueda::python
