// SPDX-License-Identifier: Apache-2.0
// The norm of gradients of which each rank has measured a part.
#pragma once

#include <string>
#include <utility>

#include "rueda/torch/collectives/scope_reference.h"
#include "rueda/torch/reducer/gradient_norm.h"  // IWYU pragma: export

namespace rueda {

// Purpose: the norm out of the sums of squares that each rank has of its part. Used by the thread that steps;
// belongs to a StepReduction.
class SharedNorm {
 public:
  SharedNorm(std::string name, const Scope& scope) : scope_(scope), name_(std::move(name)) {}

  // Collective. In float32: the shares of the ranks in the sum, and so its last bits, differ from step to
  // step and run to run; the result does not, but for one in some ten million.
  void measure(double share_of_square_sum);
  // As measured last; nothing before.
  std::optional<double> last() const { return last_; }

 private:
  const ScopeReference scope_;
  const std::string name_;
  std::optional<double> last_;
};

}  // namespace rueda
