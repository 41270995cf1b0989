// SPDX-License-Identifier: Apache-2.0
// One reduction at a time for each gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace rueda {

// Purpose: the parameters with gradients that one StepReduction is reducing; no two of the process have one
// in common. Guarded, with those of all others, by one mutex. Belongs to it.
class GradientOwnership {
 public:
  GradientOwnership() = default;
  ~GradientOwnership() { release(); }
  GradientOwnership(const GradientOwnership&) = delete;
  GradientOwnership& operator=(const GradientOwnership&) = delete;

  // False when somebody has it.
  bool claim(const at::Tensor& parameter);
  void release();

 private:
  std::vector<const void*> mine_;
};

}  // namespace rueda
