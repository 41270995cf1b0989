// SPDX-License-Identifier: Apache-2.0
// Gives the data of one rank to all: parameters, and bytes that Python makes of objects.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/byte_exchange.h"
#include "python/src/torch_module.h"
#include "rueda/torch/state/objects.h"
#include "rueda/torch/state/parameters.h"

namespace py = pybind11;

namespace rueda::python {
void bind_state(py::module_& module) {
  module.def(
      "broadcast_parameters",
      [](const std::vector<std::pair<std::string, at::Tensor>>& named, Rank root, Members set) {
        broadcast_parameters(named, root, scope_of(set));
      },
      NoPythonLock());
  module.def("broadcast_object", [](const py::bytes& object, Rank root, const Name& name, Members set) {
    std::string bytes = object;
    {
      const WithoutPythonLock no_lock;
      const Scope scope = scope_of(set);
      broadcast_bytes(bytes, root, name_of("broadcast_object", name, scope), scope);
    }
    return py::bytes(bytes);
  });
  module.def("allgather_object", [](const py::bytes& object, const Name& name, Members set) {
    const std::string bytes = object;
    std::vector<std::string> all;
    {
      const WithoutPythonLock no_lock;
      const Scope scope = scope_of(set);
      all = allgather_bytes(bytes, name_of("allgather_object", name, scope), scope);
    }
    py::list objects;
    for (const std::string& each : all) objects.append(py::bytes(each));
    return objects;
  });
}

}  // namespace rueda::python
