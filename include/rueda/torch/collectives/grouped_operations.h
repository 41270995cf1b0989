// SPDX-License-Identifier: Apache-2.0
// Collective operations on several LibTorch tensors at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "rueda/torch/collectives/operations.h"

namespace rueda {

// The operations of operations.h on several tensors, which are carried out together, or fail together: none
// before all of them have been called on every rank. Every rank gives the same number. The handle at i is of
// the operation "name.i" on the tensor at i. An empty list is no operation. Each throws InvalidArgument for a
// tensor that Rueda cannot move; then none is submitted.

// The reduction of each over all ranks, laid out as it is.
std::vector<TensorHandle> grouped_allreduce_async(const std::vector<at::Tensor>& tensors,
                                                  const std::string& name, Reduction reduction = {},
                                                  Scope scope = {});
// The results replace the tensors' values.
std::vector<TensorHandle> grouped_allreduce_async_(const std::vector<at::Tensor>& tensors,
                                                   const std::string& name, Reduction reduction = {},
                                                   Scope scope = {});
// Of each, the ranks' tensors one after another along the first dimension, in which they may differ.
std::vector<TensorHandle> grouped_allgather_async(const std::vector<at::Tensor>& tensors,
                                                  const std::string& name, Scope scope = {});
// Of each, this rank's share of the rows of the reduction; the first ranks get the remainder.
std::vector<TensorHandle> grouped_reducescatter_async(const std::vector<at::Tensor>& tensors,
                                                      const std::string& name, Reduction reduction = {},
                                                      Scope scope = {});

}  // namespace rueda
