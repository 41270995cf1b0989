// SPDX-License-Identifier: Apache-2.0
// Python's lock (the GIL) given up and taken, by threads that may outlive the interpreter.
//
// A daemon thread still runs when the interpreter ends. Until 3.13 Python ends it by pthread_exit() where it
// takes the lock then, and that unwinds its stack. The process aborts at the first C++ frame that lets
// nothing through, such as a destructor. Later Pythons block the thread, and so do these.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

namespace rueda::python {

// For a thread that Python unwinds: it stays where it is until the process ends.
[[noreturn]] inline void block_this_thread() noexcept {
  while (true) ::pause();
}

// Purpose: this thread does not hold the lock while the object lives. On the stack of a thread that holds it.
class WithoutPythonLock {
 public:
  WithoutPythonLock() : state_(PyEval_SaveThread()) {}
  ~WithoutPythonLock() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      block_this_thread();
    }
  }
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;

 private:
  PyThreadState* state_;
};

// Calls `action` with the lock, on any thread. Python may also unwind in there.
template <class Action>
void with_python_lock(const Action& action) {
  try {
    const pybind11::gil_scoped_acquire lock;
    try {
      action();
    } catch (const abi::__forced_unwind&) {
      block_this_thread();  // before `lock` ends: this thread has none to give up
    }
  } catch (const abi::__forced_unwind&) {
    block_this_thread();
  }
}

// The same for C++ that is not Rueda's: torch's operations give up the lock, too, and abort. From now on
// std::terminate() blocks where Python unwinds a thread. Once a process, by `rueda._core`.
void block_threads_that_python_unwinds();

}  // namespace rueda::python
