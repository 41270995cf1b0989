// SPDX-License-Identifier: Apache-2.0
// How the gradients of a step's backward passes become one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "rueda/types.h"

namespace rueda {

// Holders of a gradient's memory that nothing else holds, while autograd calls hooks: .grad and the argument
// of the accumulation.
inline constexpr std::size_t kHoldersInAHook = 2;

// A gradient as memory that can be reduced in place: dense, every element for itself.
at::Tensor reducible(const at::Tensor& gradient);

// Purpose: the strategy that adds up the gradients of the passes of a step, for a list of parameters. Belongs
// to a StepReduction; guarded with it.
class GradientAccumulation {
 public:
  virtual ~GradientAccumulation() = default;

  // Whether passes must follow one another, none beside or inside another.
  virtual bool is_sequential() const = 0;
  // In a hook: pass number `pass` of the step has left a gradient in .grad.
  virtual void add(std::size_t index, int pass) = 0;
  // Whether there is a gradient of the step that is not in .grad.
  virtual bool holds(std::size_t index) const = 0;
  // The gradient of this rank in the step, to be reduced in place. Something is in .grad, or held.
  virtual at::Tensor take(std::size_t index) = 0;
  // Makes .grad the gradient while it is reduced, if their types allow it.
  virtual void show(std::size_t index, const at::Tensor& gradient) const = 0;
  // The reduced gradient as the parameter's type.
  virtual at::Tensor result(std::size_t index, const at::Tensor& reduced) const = 0;
  // The step is over: the accumulation lets go of its gradients.
  virtual void reset() = 0;
};

// For steps of so many passes: by autograd, in .grad; with a fixed order and several passes, by a balanced
// tree outside of .grad (pairwise_sum.h).
std::unique_ptr<GradientAccumulation> make_accumulation(ReductionOrder order, int passes,
                                                        std::vector<at::Tensor> parameters);

}  // namespace rueda
