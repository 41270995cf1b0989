// SPDX-License-Identifier: Apache-2.0
// A store of a Python program, such as torch.distributed's, for init().
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <optional>
#include <string>

#include "rueda/store.h"

namespace rueda::python {

// Purpose: an object with set(key, value), get(key) and wait([key], timedelta), of which get() may wait for
// minutes. It has check([key]) perhaps, which does not wait. Holds Python's lock only inside of the object;
// callers do not hold it.
class PythonStore final : public Store {
 public:
  // With the lock, as the only function.
  explicit PythonStore(const pybind11::object& object);
  ~PythonStore() override;
  PythonStore(const PythonStore&) = delete;
  PythonStore& operator=(const PythonStore&) = delete;

  // They throw std::runtime_error with the type and the words of the object's exception.
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  std::string in_words() const override { return words_; }

  // With the lock, after a failure: makes an exception that is no failure of the store, such as
  // KeyboardInterrupt, Python's current one again. False if there was none.
  bool restore_interruption();

 private:
  void call(const std::function<void()>& action);
  bool has(const pybind11::str& key);
  bool waits_for(const pybind11::list& keys);

  pybind11::object object_;
  pybind11::object interruption_;
  std::string words_;
  bool checks_ = false;  // by check(), which a class of the program's may have inherited without a body
};

}  // namespace rueda::python
