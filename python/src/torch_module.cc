// SPDX-License-Identifier: Apache-2.0
// rueda._torch: the LibTorch frontend for rueda.torch. Needs rueda._core, which knows process sets and
// errors.
#include "python/src/torch_module.h"

PYBIND11_MODULE(_torch, module) {
  pybind11::module_::import("rueda._core");
  rueda::python::bind_operations(module);
  rueda::python::bind_state(module);
  rueda::python::bind_gradient_reducer(module);
  rueda::python::bind_parameter_shards(module);
  rueda::python::bind_sync_batch_norm(module);
}
