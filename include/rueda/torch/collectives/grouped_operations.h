// SPDX-License-Identifier: Apache-2.0
// Collective operations on several LibTorch tensors at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "rueda/torch/collectives/operations.h"

namespace rueda {

// Each function runs one operation of operations.h on several tensors. They run together, or fail together,
// when every rank has submitted all. Every rank passes the same number of tensors. Handle i belongs to the
// operation "name.i" on tensor i. An empty list submits nothing. Each function throws InvalidArgument for a
// tensor that Rueda cannot move, and then submits none.

// Reduces each tensor over all ranks. A result has the strides of its tensor.
std::vector<TensorHandle> grouped_allreduce_async(const std::vector<at::Tensor>& tensors,
                                                  const std::string& name, Reduction reduction = {},
                                                  Scope scope = {});
// Reduces each tensor in place.
std::vector<TensorHandle> grouped_allreduce_async_(const std::vector<at::Tensor>& tensors,
                                                   const std::string& name, Reduction reduction = {},
                                                   Scope scope = {});
// Concatenates the ranks' tensors along the first dimension, for each tensor. That dimension may differ
// between ranks.
std::vector<TensorHandle> grouped_allgather_async(const std::vector<at::Tensor>& tensors,
                                                  const std::string& name, Scope scope = {});
// Reduces each tensor, and gives this rank its rows of the result. If the rows do not divide by the ranks,
// the first ranks get one more.
std::vector<TensorHandle> grouped_reducescatter_async(const std::vector<at::Tensor>& tensors,
                                                      const std::string& name, Reduction reduction = {},
                                                      Scope scope = {});

}  // namespace rueda
