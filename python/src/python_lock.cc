// SPDX-License-Identifier: Apache-2.0
#include "python/src/python_lock.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>

namespace rueda::python {
namespace {

std::terminate_handler before = nullptr;

// An unwinding is no exception, and nothing tells of it. The main thread is the one that ends the
// interpreter.
bool is_unwound_by_python() {
  return Py_IsInitialized() == 0 && ::gettid() != ::getpid() && std::current_exception() == nullptr;
}

[[noreturn]] void terminate() {
  if (is_unwound_by_python()) block_this_thread();
  if (before != nullptr) before();
  std::abort();
}

}  // namespace

void block_threads_that_python_unwinds() { before = std::set_terminate(terminate); }

}  // namespace rueda::python
