// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/collectives/tensor_adapter.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& words) {
  throw InvalidArgument(Status::invalid_argument(name.empty() ? fmt::format("a tensor {}.", words)
                                                              : fmt::format("tensor '{}' {}.", name, words)));
}

// Checks that hold for memory of any kind.
void check_strided(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) refuse(name, "is undefined; give it a value first");
  if (tensor.layout() != at::kStrided) {
    refuse(name, fmt::format("has the layout {}; convert it by to_dense() first", c10::str(tensor.layout())));
  }
  if (tensor.is_neg()) refuse(name, "is a negated view of other memory; copy it by resolve_neg() first");
}

void check_in_host_memory(const at::Tensor& tensor, const std::string& name) {
  check_strided(tensor, name);
  if (tensor.device().is_cpu() && tensor.has_storage()) return;
  refuse(name,
         fmt::format("is on the device {}, and this takes the host's memory only; copy it by cpu() first",
                     tensor.device().str()));
}

void check_writable(const at::Tensor& tensor, const std::string& name) {
  if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) return;
  refuse(name, "has elements that share memory and cannot be written; copy it by contiguous() first");
}

// The stream in which this thread gives the device its work. Uses libc10's interface for every device: no
// library of CUDA's is linked.
c10::Stream current_stream(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

TensorView with_layout(const at::Tensor& tensor, const std::string& name) {
  TensorView view;
  view.dtype = data_type_for(tensor.scalar_type(), name);
  view.shape = Shape(tensor.sizes().begin(), tensor.sizes().end());
  if (!tensor.is_contiguous()) view.strides = Strides(tensor.strides().begin(), tensor.strides().end());
  return view;
}

}  // namespace

std::optional<DataType> known_data_type(at::ScalarType type) {
  switch (type) {
    case at::ScalarType::Byte: return DataType::uint8;
    case at::ScalarType::Char: return DataType::int8;
    case at::ScalarType::Short: return DataType::int16;
    case at::ScalarType::Int: return DataType::int32;
    case at::ScalarType::Long: return DataType::int64;
    case at::ScalarType::Half: return DataType::float16;
    case at::ScalarType::BFloat16: return DataType::bfloat16;
    case at::ScalarType::Float: return DataType::float32;
    case at::ScalarType::Double: return DataType::float64;
    case at::ScalarType::Bool: return DataType::boolean;
    default: return std::nullopt;
  }
}

DataType data_type_for(at::ScalarType type, const std::string& name) {
  if (const std::optional<DataType> known = known_data_type(type)) return *known;
  const bool complex = at::isComplexType(type);
  refuse(name, fmt::format("has elements of type {}, which Rueda does not move; {}", c10::toString(type),
                           complex ? "give its real view (view_as_real)" : "convert it (to(torch::kFloat))"));
}

at::ScalarType scalar_type_for(DataType dtype) {
  switch (dtype) {
    case DataType::uint8: return at::ScalarType::Byte;
    case DataType::int8: return at::ScalarType::Char;
    case DataType::int16: return at::ScalarType::Short;
    case DataType::int32: return at::ScalarType::Int;
    case DataType::int64: return at::ScalarType::Long;
    case DataType::float16: return at::ScalarType::Half;
    case DataType::bfloat16: return at::ScalarType::BFloat16;
    case DataType::float32: return at::ScalarType::Float;
    case DataType::float64: return at::ScalarType::Double;
    case DataType::boolean: return at::ScalarType::Bool;
  }
  return at::ScalarType::Undefined;
}

ConstTensorView read_view(const at::Tensor& tensor, const std::string& name) {
  check_in_host_memory(tensor, name);
  ConstTensorView view = with_layout(tensor, name);
  view.data = tensor.const_data_ptr();
  return view;
}

TensorView write_view(const at::Tensor& tensor, const std::string& name) {
  check_in_host_memory(tensor, name);
  check_writable(tensor, name);
  TensorView view = with_layout(tensor, name);
  view.data = tensor.mutable_data_ptr();
  return view;
}

void check_movable(const at::Tensor& tensor, const std::string& name) {
  check_strided(tensor, name);
  if (!tensor.is_cuda()) check_in_host_memory(tensor, name);
  static_cast<void>(data_type_for(tensor.scalar_type(), name));
}

void check_can_be_written(const at::Tensor& tensor, const std::string& name) {
  check_movable(tensor, name);
  check_writable(tensor, name);
  if (tensor.is_cuda() && !tensor.is_contiguous())
    refuse(name, "is on a device, and is to be written where it has gaps; copy it by contiguous() first");
}

at::Tensor new_output_like(const at::Tensor& tensor) {
  const at::MemoryFormat format =
      tensor.is_cuda() ? at::MemoryFormat::Contiguous : at::MemoryFormat::Preserve;
  return at::empty_like(tensor, tensor.options().memory_format(format));
}

void hold_back_current_stream(const Handle& handle, const at::Tensor& tensor) {
  const std::shared_ptr<const Fence> fence = handle.fence();
  if (fence && tensor.defined()) fence->hold_back(current_stream(tensor.device()).native_handle());
}

void keep_for_current_stream(const c10::Storage& storage) {
  const at::Device device = storage.device();
  if (!device.is_cuda()) return;
  c10::impl::VirtualGuardImpl(device.type())
      .recordDataPtrOnStream(storage.data_ptr(), current_stream(device));
}

namespace {

// Both on one device, without gaps.
void check_on_device(const OperationTensors& tensors, const std::string& name) {
  const at::Tensor &input = tensors.input, &output = tensors.output;
  check_movable(input, name);
  if (!output.defined()) return;
  check_can_be_written(output, name);
  if (input.device() == output.device()) return;
  refuse(name, fmt::format("is on the device {}, and its output on {}; give both on one",
                           input.device().str(), output.device().str()));
}

Submission submission_on_device(OperationTensors& tensors, const std::string& name) {
  check_on_device(tensors, name);
  if (!tensors.input.is_contiguous()) tensors.input = tensors.input.contiguous();
  Submission submission;
  if (tensors.output.defined()) {
    submission.output = with_layout(tensors.output, name);
    submission.output.data = tensors.output.mutable_data_ptr();
  }
  const TensorView view = with_layout(tensors.input, name);
  submission.input = {tensors.input.const_data_ptr(), view.dtype, view.shape};
  set_device(submission, tensors.input);
  if (!tensors.output.defined()) {
    tensors.made_output = true;
    submission.allocate = [made = &tensors, stream = current_stream(tensors.input.device())](
                              DataType dtype, const Shape& shape) {
      const c10::StreamGuard there(stream);  // torch's allocator gives memory that this stream has released
      made->output = at::empty(shape, at::TensorOptions(scalar_type_for(dtype)).device(stream.device()));
      return TensorView{made->output.mutable_data_ptr(), dtype, shape, {}};
    };
  }
  return submission;
}

Submission submission_on_host(OperationTensors& tensors, const std::string& name) {
  Submission submission;
  const bool writes = tensors.output.defined();
  if (writes)
    submission.output = write_view(tensors.output, name);  // before reading: it may move shared storage
  if (writes && tensors.output.is_same(tensors.input)) {
    submission.input = submission.output;
  } else {
    submission.input = read_view(tensors.input, name);
  }
  if (!writes) {
    submission.allocate = [made = &tensors](DataType dtype, const Shape& shape) {
      made->output = at::empty(shape, at::TensorOptions(scalar_type_for(dtype)));
      return TensorView{made->output.mutable_data_ptr(), dtype, shape, {}};
    };
  }
  return submission;
}

}  // namespace

Submission submission_for(Operation operation, std::string name,
                          const std::shared_ptr<OperationTensors>& tensors) {
  const bool on_device = tensors->input.defined() && tensors->input.is_cuda();
  Submission submission =  // its pointers into `tensors` live as long as the owner
      on_device ? submission_on_device(*tensors, name) : submission_on_host(*tensors, name);
  submission.request.name = std::move(name);
  submission.request.operation = operation;
  submission.request.dtype = submission.input.dtype;
  submission.request.shape = submission.input.shape;
  submission.owner = tensors;
  return submission;
}

void set_device(Submission& submission, const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return;
  const c10::Stream stream = current_stream(tensor.device());
  submission.request.device = DeviceKind::cuda;
  submission.device = stream.device_index();
  submission.stream = stream.native_handle();
}

at::Tensor in_memory_order_of(const at::Tensor& tensor, const at::Tensor& values) {
  if (values.strides() == tensor.strides()) return values;
  return at::empty_strided(tensor.sizes(), tensor.strides(), values.options()).copy_(values);
}

void mark_changed(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace rueda
