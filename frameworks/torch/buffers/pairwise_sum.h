// SPDX-License-Identifier: Apache-2.0
// The gradients of several backward passes, added up in an order that does not depend on how many of them a
// rank does.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace rueda {

// The type in which gradients of `type` are added up: float32 for 16-bit floats, else the same.
at::ScalarType sum_type(at::ScalarType type);

// Purpose: one parameter's gradients of a step, added by a balanced tree over the passes, as those of ranks
// are (ops/schedules/reduction_tree.h): a binary counter; its level i holds the sum of 2^i passes. A pass
// without a gradient counts as zeros. Cost: a gradient's memory a level. Belongs to a GradientAccumulation;
// guarded with it.
class PairwiseSum {
 public:
  // The gradient of pass number `pass`, not below passes(). Keeps it, and changes it later.
  void add(int pass, at::Tensor gradient);
  int passes() const { return passes_; }

  // The sum of so many passes, a power of two; undefined when none had a gradient. Begins anew.
  at::Tensor take(int passes);
  void reset();

 private:
  void push(at::Tensor gradient);

  int passes_ = 0;
  std::vector<at::Tensor> levels_;  // undefined: no gradient in these passes, or none yet
};

}  // namespace rueda
