// SPDX-License-Identifier: Apache-2.0
// The size of all gradients together.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "frameworks/torch/scope_reference.h"

namespace rueda {

// The 2-norm of all gradients of the parameters as one vector, computed in float64, given in float32; not
// finite if a value is not, or if it is beyond float32. 0 without gradients.
double norm_of_gradients(const std::vector<at::Tensor>& parameters);
// Multiplies all gradients.
void scale_gradients(const std::vector<at::Tensor>& parameters, double factor);

// Purpose: the norm out of the sums of squares that each rank has of its part. Used by the thread that steps;
// belongs to a GradientSync.
class SharedNorm {
 public:
  SharedNorm(std::string name, const Scope& scope) : scope_(scope), name_(std::move(name)) {}

  // Collective. In float32: which rank has summed up what, and with that the last bits of the sum, differ
  // from step to step and run to run; the result does not, but for one in some ten million.
  double of(double share_of_square_sum) const;

 private:
  const ScopeReference scope_;
  const std::string name_;
};

}  // namespace rueda
