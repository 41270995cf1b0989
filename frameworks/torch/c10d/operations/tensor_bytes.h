// SPDX-License-Identifier: Apache-2.0
// Tensors as operations see them that move bytes, and lists of tensors as one memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/submissions/submission.h"
#include "rueda/types.h"

namespace rueda {

// An operation that moves bytes moves elements of any type: one that Rueda knows, or as many bytes.
DataType moved_type(at::ScalarType type);
// Of an operation that moves `input` into `output`, both contiguous and on one device: each as one dimension.
// It keeps both alive. An undefined tensor has no elements.
Submission moving(Operation operation, const at::Tensor& input, const at::Tensor& output);

// How many elements of moved_type() a tensor has.
std::int64_t moved_elements(const at::Tensor& tensor);
std::vector<std::int64_t> moved_elements_of(std::span<const at::Tensor> tensors);

// The values of all tensors, which are on one device, one after another, as bytes. One contiguous tensor
// alone is not copied. On a device the current stream copies.
at::Tensor joined_bytes(std::span<const at::Tensor> tensors);
// Memory for as much.
at::Tensor room_for(std::span<const at::Tensor> tensors);
// The values back into tensors. One tensor alone may lie there already.
void distribute_bytes(const at::Tensor& bytes, std::span<const at::Tensor> tensors);

// Whether a dimension was expanded, so that its elements are one in memory.
bool shares_elements(const at::Tensor& tensor);
// Copies into such a tensor, too: of elements that are one in memory, the first counts.
void copy_each_once(const at::Tensor& to, const at::Tensor& from);

// A contiguous tensor for an operation to write: the tensor itself, or another one.
at::Tensor contiguous_output(const at::Tensor& tensor);

}  // namespace rueda
