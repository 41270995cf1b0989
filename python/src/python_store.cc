// SPDX-License-Identifier: Apache-2.0
#include "python/src/python_store.h"

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

#include "python/src/python_lock.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

constexpr std::chrono::milliseconds kLongestWait{200};

std::string text_of(py::handle value) {
  if (PyBytes_Check(value.ptr()) != 0) return py::reinterpret_borrow<py::bytes>(value);
  if (PyUnicode_Check(value.ptr()) != 0) return value.cast<std::string>();
  throw std::runtime_error(fmt::format("it gives an object of type {} in place of bytes",
                                       std::string(py::str(py::type::handle_of(value).attr("__name__")))));
}

std::string words_of(py::error_already_set& error) {
  std::string type = py::str(error.type().attr("__name__"));
  try {
    const std::string words = py::str(error.value());
    return words.empty() ? type : fmt::format("{}: {}", type, words);
  } catch (py::error_already_set&) {  // of a __str__ of its own
    return type;
  }
}

py::object timedelta(std::chrono::milliseconds time) {
  using py::literals::operator""_a;
  return py::module_::import("datetime").attr("timedelta")("milliseconds"_a = time.count());
}

}  // namespace

PythonStore::PythonStore(const py::object& object) : object_(object), checks_(py::hasattr(object, "check")) {
  words_ =
      fmt::format("the program's {}", std::string(py::str(py::type::handle_of(object).attr("__qualname__"))));
}

// After the interpreter's end nobody needs the object's memory.
PythonStore::~PythonStore() {
  if (Py_IsInitialized() == 0) {
    object_.release();
    interruption_.release();
    return;
  }
  with_python_lock([&] {
    object_ = py::object();
    interruption_ = py::object();
  });
}

void PythonStore::call(const std::function<void()>& action) {
  std::string failure;
  with_python_lock([&] {
    try {
      action();
    } catch (py::error_already_set& error) {
      failure = words_of(error);
      if (!error.matches(PyExc_Exception)) interruption_ = error.value();
    } catch (const std::runtime_error& error) {
      failure = error.what();
    }
  });
  if (!failure.empty()) throw std::runtime_error(failure);
}

void PythonStore::set(const std::string& key, const std::string& value) {
  call([&] { object_.attr("set")(key, value); });
}

std::optional<std::string> PythonStore::get(const std::string& key) {
  std::optional<std::string> value;
  call([&] {
    const py::str name(key);
    if (!has(name)) return;
    const py::object found = object_.attr("get")(name);
    if (!found.is_none()) value = text_of(found);
  });
  return value;
}

bool PythonStore::has(const py::str& key) {
  py::list keys;
  keys.append(key);
  if (!checks_) return waits_for(keys);
  try {
    return object_.attr("check")(keys).cast<bool>();
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;
    checks_ = false;
  }
  return waits_for(keys);
}

// Classes raise exceptions of their own when the time is over. One that comes before tells of a failure.
bool PythonStore::waits_for(const py::list& keys) {
  const auto begun = std::chrono::steady_clock::now();
  try {
    object_.attr("wait")(keys, timedelta(kLongestWait));
    return true;
  } catch (py::error_already_set& error) {
    const bool in_time = std::chrono::steady_clock::now() - begun < kLongestWait;
    if (error.matches(PyExc_TimeoutError)) return false;
    if (in_time || !error.matches(PyExc_Exception)) throw;
  }
  return false;
}

bool PythonStore::restore_interruption() {
  if (!interruption_) return false;
  PyErr_SetObject(py::type::handle_of(interruption_).ptr(), interruption_.ptr());
  interruption_ = py::object();
  return true;
}

}  // namespace rueda::python
