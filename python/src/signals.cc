// SPDX-License-Identifier: Apache-2.0
#include "python/src/signals.h"

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/base/wait_check.h"
#include "python/src/python_lock.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

unsigned long main_thread = 0;  // as Python numbers threads

// After the interpreter's end no handler runs.
bool is_main_thread() noexcept {
  return PyThread_get_thread_ident() == main_thread && Py_IsInitialized() != 0;
}

void run_handlers() {
  with_python_lock([] {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
}

constexpr WaitCheck kSignals{is_main_thread, run_handlers};

}  // namespace

void run_signal_handlers_while_waiting() {
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  set_wait_check(kSignals);
}

void end_without_others() {
  on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        _exit(status);
      },
      nullptr);
}

}  // namespace rueda::python
