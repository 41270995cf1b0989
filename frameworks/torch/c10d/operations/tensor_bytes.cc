// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/tensor_bytes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstring>
#include <memory>
#include <utility>

#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

using Both = std::pair<at::Tensor, at::Tensor>;

}  // namespace

DataType moved_type(at::ScalarType type) { return known_data_type(type).value_or(DataType::uint8); }

std::int64_t moved_elements(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  return known_data_type(tensor.scalar_type()) ? tensor.numel() : static_cast<std::int64_t>(tensor.nbytes());
}

Submission moving(Operation operation, const at::Tensor& input, const at::Tensor& output) {
  Submission submission;
  const DataType dtype = moved_type(input.defined() ? input.scalar_type() : output.scalar_type());
  const void* from = input.defined() ? input.const_data_ptr() : nullptr;
  void* to = output.defined() ? output.mutable_data_ptr() : nullptr;
  submission.input = {from, dtype, {moved_elements(input)}};
  submission.output = {to, dtype, {moved_elements(output)}, {}};
  submission.into_output = true;
  submission.request.operation = operation;
  submission.request.dtype = dtype;
  submission.request.shape = submission.input.shape;
  submission.owner = std::make_shared<Both>(input, output);
  return submission;
}

at::Tensor joined_bytes(std::span<const at::Tensor> tensors) {
  if (tensors.size() == 1 && tensors[0].is_contiguous()) return tensors[0];
  at::Tensor bytes = room_for(tensors);
  auto* to = static_cast<std::byte*>(bytes.mutable_data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const at::Tensor values = tensor.contiguous();
    std::memcpy(to, values.const_data_ptr(), values.nbytes());
    to += values.nbytes();
  }
  return bytes;
}

at::Tensor room_for(std::span<const at::Tensor> tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  const at::ScalarType type = tensors.empty() ? at::kByte : tensors[0].scalar_type();
  const auto element = static_cast<std::int64_t>(c10::elementSize(type));
  if (bytes % element != 0) return at::empty({bytes}, at::TensorOptions(at::kByte));
  return at::empty({bytes / element}, at::TensorOptions(type));
}

void distribute_bytes(const at::Tensor& bytes, std::span<const at::Tensor> tensors) {
  const auto* from = static_cast<const std::byte*>(bytes.const_data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    if (tensor.is_contiguous()) {
      void* to = tensor.mutable_data_ptr();
      if (to != from) std::memcpy(to, from, tensor.nbytes());
    } else {
      const at::Tensor values = at::empty(tensor.sizes(), tensor.options());
      std::memcpy(values.mutable_data_ptr(), from, values.nbytes());
      tensor.copy_(values);
    }
    from += tensor.nbytes();
  }
}

at::Tensor contiguous_output(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : at::empty(tensor.sizes(), tensor.options());
}

}  // namespace rueda
