// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/tensor_adapter.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& words) {
  throw InvalidArgument(Status::invalid_argument(fmt::format("tensor '{}' {}.", name, words)));
}

void check_memory(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) refuse(name, "is undefined; give it a value first");
  if (tensor.layout() != at::kStrided) {
    refuse(name, fmt::format("has the layout {}; convert it by to_dense() first", c10::str(tensor.layout())));
  }
  if (!tensor.device().is_cpu() || !tensor.has_storage()) {
    refuse(name, fmt::format("is on the device {}, and Rueda moves host memory only; copy it by cpu() first",
                             tensor.device().str()));
  }
  if (tensor.is_neg()) refuse(name, "is a negated view of other memory; copy it by resolve_neg() first");
}

TensorView with_layout(const at::Tensor& tensor, const std::string& name) {
  TensorView view;
  view.dtype = data_type_for(tensor.scalar_type(), name);
  view.shape = Shape(tensor.sizes().begin(), tensor.sizes().end());
  if (!tensor.is_contiguous()) view.strides = Strides(tensor.strides().begin(), tensor.strides().end());
  return view;
}

}  // namespace

DataType data_type_for(at::ScalarType type, const std::string& name) {
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
    default: break;
  }
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
  check_memory(tensor, name);
  ConstTensorView view = with_layout(tensor, name);
  view.data = tensor.const_data_ptr();
  return view;
}

TensorView write_view(const at::Tensor& tensor, const std::string& name) {
  check_memory(tensor, name);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    refuse(name, "has elements that share memory and cannot be written; copy it by contiguous() first");
  }
  TensorView view = with_layout(tensor, name);
  view.data = tensor.mutable_data_ptr();
  return view;
}

Submission submission_for(Operation operation, std::string name,
                          const std::shared_ptr<OperationTensors>& tensors) {
  Submission submission;
  const bool writes = tensors->output.defined();
  if (writes)
    submission.output = write_view(tensors->output, name);  // before reading: it may move shared storage
  if (writes && tensors->output.is_same(tensors->input)) {
    submission.input = submission.output;
  } else {
    submission.input = read_view(tensors->input, name);
  }
  submission.request.name = std::move(name);
  submission.request.operation = operation;
  submission.request.dtype = submission.input.dtype;
  submission.request.shape = submission.input.shape;
  submission.owner = tensors;
  if (!writes) {
    submission.allocate = [made = tensors.get()](DataType dtype,
                                                 const Shape& shape) {  // lives as long as the owner
      made->output = at::empty(shape, at::TensorOptions(scalar_type_for(dtype)));
      return TensorView{made->output.mutable_data_ptr(), dtype, shape, {}};
    };
  }
  return submission;
}

at::Tensor in_memory_order_of(const at::Tensor& tensor, const at::Tensor& values) {
  if (values.strides() == tensor.strides()) return values;
  return at::empty_strided(tensor.sizes(), tensor.strides(), values.options()).copy_(values);
}

void mark_changed(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace rueda
