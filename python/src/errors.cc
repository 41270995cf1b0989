// SPDX-License-Identifier: Apache-2.0
#include "python/src/errors.h"

#include <pybind11/pybind11.h>

#include <exception>
#include <string>

#include "core/base/error.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

void raise_ours(const char* name, const std::string& words) {
  const py::object type = py::module_::import("rueda.common.exceptions").attr(name);
  py::set_error(type, words.c_str());
}

}  // namespace

void set_python_error() {
  try {
    throw;
  } catch (const InvalidArgument& error) {
    py::set_error(PyExc_ValueError, error.what());
  } catch (const NotInitialized& error) {
    py::set_error(PyExc_ValueError, error.what());
  } catch (const Error& error) {
    raise_ours("HorovodInternalError", error.what());
  } catch (const OperationFailed& failed) {
    const StatusCode code = failed.status.code;
    if (code == StatusCode::not_initialized)
      return py::set_error(PyExc_ValueError, failed.status.message.c_str());
    raise_ours(code == StatusCode::invalid_argument ? "InvalidOperation" : "HorovodInternalError",
               failed.status.message);
  }
}

void register_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (...) {
      set_python_error();
    }
  });
}

}  // namespace rueda::python
