// SPDX-License-Identifier: Apache-2.0
#include "python/src/torch_handle.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "python/src/errors.h"
#include "python/src/python_lock.h"

namespace py = pybind11;

namespace rueda::python {

PendingResult::PendingResult(TensorHandle handle, bool with_splits) : with_splits_(with_splits) {
  handles_.push_back(std::move(handle));
}

PendingResult::PendingResult(std::vector<TensorHandle> handles)
    : handles_(std::make_move_iterator(handles.begin()), std::make_move_iterator(handles.end())),
      grouped_(true) {}

bool PendingResult::done() const {
  for (const TensorHandle& handle : handles_) {
    if (!handle.done()) return false;
  }
  return true;
}

py::object PendingResult::wait() const {
  Status failure;
  {
    std::optional<WithoutPythonLock> no_lock;  // not where nothing is waited for
    if (!done()) no_lock.emplace();
    // If one of a group has failed, none is carried out.
    for (std::size_t i = 0; i < handles_.size() && failure.ok(); ++i) failure = handles_[i].wait_status();
  }
  if (!failure.ok()) throw OperationFailed{std::move(failure)};
  if (grouped_) {
    py::list outputs;
    for (const TensorHandle& handle : handles_) outputs.append(py::cast(handle.output()));
    return py::tuple(outputs);
  }
  py::object output = py::cast(handles_.front().output());
  if (!with_splits_) return output;
  return py::make_tuple(std::move(output), handles_.front().received_splits());
}

namespace {

struct HandleObject {
  PyObject_HEAD PendingResult result;
};

PyTypeObject* handle_type = nullptr;  // while the interpreter lives

const PendingResult& result_of(PyObject* self) { return reinterpret_cast<HandleObject*>(self)->result; }

void destroy(PyObject* self) {
  const py::error_scope kept;  // tensors and their Python objects may end with it
  std::destroy_at(&reinterpret_cast<HandleObject*>(self)->result);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* done(PyObject* self, PyObject*) { return PyBool_FromLong(result_of(self).done() ? 1 : 0); }

PyObject* wait(PyObject* self, PyObject*) {
  try {
    try {
      return result_of(self).wait().release().ptr();
    } catch (const OperationFailed&) {
      set_python_error();
    }
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyMethodDef methods[] = {
    {"done", done, METH_NOARGS, "done($self, /)\n--\n\nWhether the operation is complete, well or not."},
    {"wait", wait, METH_NOARGS,
     "wait($self, /)\n--\n\n"
     "The result, when the operation is complete; raises HorovodInternalError where it has failed."},
    {}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("One operation that has begun, or a group of them.")},
                       {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                       {Py_tp_methods, methods},
                       {}};

PyType_Spec spec = {"rueda._torch.Handle", sizeof(HandleObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

py::object make_handle(PendingResult result) {
  PyObject* made = handle_type->tp_alloc(handle_type, 0);
  if (made == nullptr) throw py::error_already_set();
  new (&reinterpret_cast<HandleObject*>(made)->result) PendingResult(std::move(result));
  return py::reinterpret_steal<py::object>(made);
}

void bind_handle(py::module_& module) {
  const py::object type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!type) throw py::error_already_set();
  module.add_object("Handle", type);
  handle_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  Py_INCREF(handle_type);
}

}  // namespace rueda::python
