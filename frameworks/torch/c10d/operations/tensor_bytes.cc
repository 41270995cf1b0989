// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/tensor_bytes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "frameworks/torch/c10d/operations/signature.h"
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

std::vector<std::int64_t> moved_elements_of(std::span<const at::Tensor> tensors) {
  std::vector<std::int64_t> elements;
  for (const at::Tensor& each : tensors) elements.push_back(moved_elements(each));
  return elements;
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
  const at::Tensor& shown = input.defined() ? input : output;
  sign(submission.request, shown.scalar_type());
  sign_pairs(submission.request, shown);
  submission.owner = std::make_shared<Both>(input, output);
  set_device(submission, shown);
  return submission;
}

namespace {

// A contiguous tensor's bytes in one dimension, in its memory.
at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.reshape({-1}).view(at::kByte); }

// Calls visit(tensor, its bytes of `all`) for each tensor that has some; `all` has them one after another.
template <class Visit>
void for_each_part(const at::Tensor& all, std::span<const at::Tensor> tensors, Visit visit) {
  const at::NoGradGuard no_grad;
  const at::Tensor bytes = bytes_of(all);
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    const auto length = static_cast<std::int64_t>(tensor.nbytes());
    if (length > 0) visit(tensor, bytes.narrow(0, offset, length));
    offset += length;
  }
}

void copy_into(std::byte* to, std::span<const at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const at::Tensor values = tensor.contiguous();
    std::memcpy(to, values.const_data_ptr(), values.nbytes());
    to += values.nbytes();
  }
}

void copy_from(const std::byte* from, std::span<const at::Tensor> tensors) {
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

// On a device.
void copy_part(const at::Tensor& tensor, const at::Tensor& part) {
  if (tensor.is_contiguous()) {
    if (tensor.const_data_ptr() != part.const_data_ptr()) bytes_of(tensor).copy_(part, true);
    return;
  }
  const at::Tensor values = at::empty(tensor.sizes(), tensor.options());
  bytes_of(values).copy_(part, true);
  tensor.copy_(values, true);
}

}  // namespace

at::Tensor joined_bytes(std::span<const at::Tensor> tensors) {
  if (tensors.size() == 1 && tensors[0].is_contiguous()) return tensors[0];
  at::Tensor bytes = room_for(tensors);
  if (bytes.is_cuda()) {
    for_each_part(bytes, tensors, [](const at::Tensor& tensor, const at::Tensor& part) {
      part.copy_(bytes_of(tensor.contiguous()), true);
    });
  } else {
    copy_into(static_cast<std::byte*>(bytes.mutable_data_ptr()), tensors);
  }
  return bytes;
}

at::Tensor room_for(std::span<const at::Tensor> tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  const at::TensorOptions there(tensors.empty() ? at::Device(at::kCPU) : tensors[0].device());
  const bool of_one_type = std::ranges::all_of(
      tensors, [&](const at::Tensor& each) { return each.scalar_type() == tensors[0].scalar_type(); });
  if (tensors.empty() || !of_one_type) return at::empty({bytes}, there.dtype(at::kByte));
  const auto element = static_cast<std::int64_t>(tensors[0].element_size());
  return at::empty({bytes / element}, there.dtype(tensors[0].scalar_type()));
}

void distribute_bytes(const at::Tensor& bytes, std::span<const at::Tensor> tensors) {
  if (bytes.is_cuda()) return for_each_part(bytes, tensors, copy_part);
  copy_from(static_cast<const std::byte*>(bytes.const_data_ptr()), tensors);
}

bool shares_elements(const at::Tensor& tensor) {
  if (tensor.numel() < 2) return false;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) return true;
  }
  return false;
}

void copy_each_once(const at::Tensor& to, const at::Tensor& from) {
  at::Tensor target = to, values = from;
  for (std::int64_t dim = 0; shares_elements(target); ++dim) {
    if (target.stride(dim) != 0 || target.size(dim) < 2) continue;
    target = target.narrow(dim, 0, 1);
    values = values.narrow(dim, 0, 1);
  }
  target.copy_(values);
}

at::Tensor contiguous_output(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : at::empty(tensor.sizes(), tensor.options());
}

}  // namespace rueda
