// SPDX-License-Identifier: Apache-2.0
// Between LibTorch's tensors and the core's views of memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "core/engine/submissions/submission.h"
#include "rueda/handle.h"
#include "rueda/tensor_view.h"

namespace rueda {

// The core's type for elements of `type`; nothing if it has none.
std::optional<DataType> known_data_type(at::ScalarType type);
// The same. Throws InvalidArgument naming `name`, the type and the type to
// convert to.
DataType data_type_for(at::ScalarType type, const std::string& name);
at::ScalarType scalar_type_for(DataType dtype);

// The tensor's memory with its shape and strides; the caller keeps the tensor alive. Throws InvalidArgument,
// naming `name` and the remedy, for a tensor that is undefined, sparse, elsewhere than in host memory or of a
// type that Rueda does not move; write_view also for one with elements that share memory (expand).
ConstTensorView read_view(const at::Tensor& tensor, const std::string& name);
TensorView write_view(const at::Tensor& tensor, const std::string& name);

// Throws InvalidArgument as read_view does, but for a tensor on a CUDA device: operations move these, too.
void check_movable(const at::Tensor& tensor, const std::string& name);
// The same for one that an operation is to write, in place or not.
void check_can_be_written(const at::Tensor& tensor, const std::string& name);
// A tensor of that shape and dtype where `tensor` is, for an operation to write: laid out as it is, on a
// device row by row.
at::Tensor new_output_like(const at::Tensor& tensor);
// Later work of this thread on the device of `tensor` waits for that result, if it is on a device.
void hold_back_current_stream(const Handle& handle, const at::Tensor& tensor);
// Free memory on a device serves nothing else until this thread's current stream is through with its work
// until then: for memory that was made for another stream.
void keep_for_current_stream(const c10::Storage& storage);

// Purpose: the tensors of one operation. Shared by its Submission, which keeps it alive while the background
// thread works on the memory, and by whoever waits. `output` of an operation that finds its own size is
// written by the background thread before the Handle is done, and read after.
struct OperationTensors {
  at::Tensor input;
  at::Tensor output;
  bool made_output = false;  // by us: on a device, for the stream that was current at submission
};

// A submission that reads `tensors->input` and owns `tensors`. With an output it writes there (the same
// tensor: in place); without one it allocates `tensors->output` when the size is known. Tensors on a CUDA
// device are ready when this thread's current stream has done its work of before the submission; an input
// there that has gaps is replaced by a copy, and an output that has any refused.
Submission submission_for(Operation operation, std::string name,
                          const std::shared_ptr<OperationTensors>& tensors);

// The submission's tensors are where `tensor` is. On a CUDA device they are ready when this thread's current
// stream has done its work of before the submission.
void set_device(Submission& submission, const at::Tensor& tensor);

// `values` with the memory order of `tensor`, which has its shape: itself, or a copy.
at::Tensor in_memory_order_of(const at::Tensor& tensor, const at::Tensor& values);

// Tells autograd that memory of `tensor` is about to change, so that a backward which saved it refuses to
// run.
void mark_changed(const at::Tensor& tensor);

}  // namespace rueda
