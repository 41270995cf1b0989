// SPDX-License-Identifier: Apache-2.0
// The result of an asynchronous operation in Python.
#pragma once

#include <c10/util/SmallVector.h>
#include <pybind11/pybind11.h>

#include <vector>

#include "rueda/torch/collectives/operations.h"

namespace rueda::python {

// Purpose: the argument of synchronize() and poll(): one operation, or those of a group. Belongs to a Handle
// of Python's; any thread may wait.
class PendingResult {
 public:
  explicit PendingResult(TensorHandle handle, bool with_splits = false);
  explicit PendingResult(std::vector<TensorHandle> handles);

  bool done() const;
  // A tensor; of a group, a list of them; of an alltoall with splits, a tensor and the rows from each rank.
  // Throws OperationFailed.
  pybind11::object wait() const;

 private:
  c10::SmallVector<TensorHandle, 1> handles_;
  bool grouped_ = false;
  bool with_splits_ = false;
};

// A Handle of Python's that owns `result`. Its type is Python's own kind, not pybind11's: each operation
// makes one, which costs a tenth of an operation on a small tensor with pybind11.
pybind11::object make_handle(PendingResult result);

void bind_handle(pybind11::module_& module);

}  // namespace rueda::python
