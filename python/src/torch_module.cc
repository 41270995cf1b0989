// SPDX-License-Identifier: Apache-2.0
// rueda._torch: the LibTorch frontend for rueda.torch. Needs rueda._core, which knows process sets and
// errors.
#include "python/src/torch_module.h"

#include <torch/csrc/Exceptions.h>

#include <utility>

#include "frameworks/torch/reducer/backward_errors.h"
#include "python/src/errors.h"
#include "python/src/python_lock.h"

namespace {

// Python's backward() raises a python_error that autograd was thrown.
void throw_as_python_error() {
  rueda::python::with_python_lock([] {
    rueda::python::set_python_error();
    python_error error;
    error.persist();
    throw python_error(std::move(error));
  });
}

}  // namespace

PYBIND11_MODULE(_torch, module) {
  pybind11::module_::import("rueda._core");
  rueda::set_errors_of_backward_passes(&throw_as_python_error);
  rueda::python::bind_operations(module);
  rueda::python::bind_state(module);
  rueda::python::bind_gradient_reducer(module);
  rueda::python::bind_parameter_shards(module);
  rueda::python::bind_sync_batch_norm(module);
  rueda::python::bind_process_group(module);
}
