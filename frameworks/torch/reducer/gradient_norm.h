// SPDX-License-Identifier: Apache-2.0
// The size of all gradients together.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/torch/collectives/scope_reference.h"

namespace rueda {

// Purpose: a norm that a device may still be computing; the host waits for that where it is read as a number,
// and only there. A plain value; any thread.
class GradientNorm {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a norm
  GradientNorm(double value = 0.0) : value_(value) {}
  // A scalar of float32 there.
  explicit GradientNorm(at::Tensor on_device) : tensor_(std::move(on_device)) {}

  // NOLINTNEXTLINE(google-explicit-constructor): a norm is a number
  operator double() const { return tensor_.defined() ? tensor_.item<double>() : value_; }
  // Undefined where it is known already.
  const at::Tensor& on_device() const { return tensor_; }

 private:
  double value_ = 0.0;
  at::Tensor tensor_;
};

// The 2-norm of all gradients of the parameters as one vector, computed in float64, given in float32; not
// finite if a value is not, or if it is beyond float32. 0 without gradients.
GradientNorm norm_of_gradients(const std::vector<at::Tensor>& parameters);
// Scales all gradients, of which that is the norm, to `most`, unless it is not greater, or not finite. On a
// device that is decided there. Whether the host has done it.
bool clip_gradients(const std::vector<at::Tensor>& parameters, const GradientNorm& norm, double most);

// Purpose: the norm out of the sums of squares that each rank has of its part. Used by the thread that steps;
// belongs to a StepReduction.
class SharedNorm {
 public:
  SharedNorm(std::string name, const Scope& scope) : scope_(scope), name_(std::move(name)) {}

  // Collective. In float32: which rank has summed up what, and with that the last bits of the sum, differ
  // from step to step and run to run; the result does not, but for one in some ten million.
  void measure(double share_of_square_sum);
  // As measured last; nothing before.
  std::optional<double> last() const { return last_; }

 private:
  const ScopeReference scope_;
  const std::string name_;
  std::optional<double> last_;
};

}  // namespace rueda
