// SPDX-License-Identifier: Apache-2.0
// c10d's reductions of torch's types, as reductions of core's types.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "rueda/reduction.h"

namespace rueda {

// Bitwise reductions are none of core's: ranks exchange all values, and combine them by bitwise_into().
bool is_bitwise(const c10d::ReduceOp& op);
// `values`: of one shape each, `ranks` in number, one behind another. Throws for elements that are no
// integers.
void bitwise_into(const at::Tensor& result, const at::Tensor& values, int ranks, const c10d::ReduceOp& op);
void check_bitwise(const at::Tensor& tensor);

// The others. Throws c10::ValueError for one that Rueda does not have.
Reduction reduction_of(const c10d::ReduceOp& op);

// The values in a type that core reduces so: the tensor itself, a view of it, or a converted copy. Complex
// numbers are pairs, unsigned integers of 16 bits and more are signed ones of as many bits or more.
at::Tensor reducible(const at::Tensor& tensor, const c10d::ReduceOp& op);
// Whether reducible() of such a tensor has the memory of the tensor.
bool is_reducible_in_place(const at::Tensor& tensor, const c10d::ReduceOp& op);
// Converts the values of reducible() back.
void restore(const at::Tensor& tensor, const at::Tensor& values, const c10d::ReduceOp& op);

}  // namespace rueda
