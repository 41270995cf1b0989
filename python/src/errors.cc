// SPDX-License-Identifier: Apache-2.0
#include "python/src/errors.h"

#include <pybind11/pybind11.h>

#include <exception>
#include <string>

#include "core/base/error.h"
#include "frameworks/torch/reducer/out_of_turn.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

// Names are the program's, and may hold anything.
void set_error(py::handle type, const std::string& words) {
  PyObject* text = PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace");
  if (text == nullptr) throw py::error_already_set();
  PyErr_SetObject(type.ptr(), py::reinterpret_steal<py::object>(text).ptr());
}

// A signal may have come with the failure: Ctrl-C reaches all ranks, and another one has left by it already.
void raise_ours(const char* name, const std::string& words) {
  if (PyErr_CheckSignals() != 0) return;
  set_error(py::module_::import("rueda.common.exceptions").attr(name), words);
}

}  // namespace

void set_python_error() {
  try {
    throw;
  } catch (const OutOfTurn& error) {
    raise_ours("OutOfTurn", error.what());
  } catch (const InvalidArgument& error) {
    set_error(PyExc_ValueError, error.what());
  } catch (const LeftJob&) {
    PyErr_SetObject(PyExc_SystemExit, py::int_(0).ptr());
  } catch (const NotInitialized& error) {
    raise_ours("InvalidOperation", error.what());
  } catch (const Error& error) {
    raise_ours("HorovodInternalError", error.what());
  } catch (py::error_already_set& error) {  // Python's own, of a signal handler
    error.restore();
  } catch (const OperationFailed& failed) {
    const StatusCode code = failed.status.code;
    const bool again = code != StatusCode::invalid_argument && code != StatusCode::not_initialized;
    raise_ours(again ? "HorovodInternalError" : "InvalidOperation", failed.status.message);
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
