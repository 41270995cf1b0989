// SPDX-License-Identifier: Apache-2.0
// The norm of all gradients together.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace rueda {

// Purpose: a norm that a device may still be computing. The host waits only when it reads the number. A
// plain value; any thread.
class GradientNorm {
 public:
  // Makes a norm that the host knows.
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a norm
  GradientNorm(double value = 0.0) : value_(value) {}
  // Makes a norm from a scalar tensor of float32 on a device.
  explicit GradientNorm(at::Tensor on_device) : tensor_(std::move(on_device)) {}

  // Returns the norm as a number. The host waits for the device here.
  // NOLINTNEXTLINE(google-explicit-constructor): a norm is a number
  operator double() const { return tensor_.defined() ? tensor_.item<double>() : value_; }
  // Returns the scalar on the device. It is undefined if the host knows the norm.
  const at::Tensor& on_device() const { return tensor_; }

 private:
  double value_ = 0.0;
  at::Tensor tensor_;
};

// Returns the 2-norm of all gradients of the parameters as one vector, computed in float64 and rounded to
// float32. It is not finite if a gradient is not, or if it exceeds float32. It is 0 without gradients.
GradientNorm norm_of_gradients(const std::vector<at::Tensor>& parameters);
// Scales all gradients from their norm `norm` down to `most`. Does nothing if the norm is smaller, or not
// finite. On a device, the device decides. Returns whether the host has scaled them.
bool clip_gradients(const std::vector<at::Tensor>& parameters, const GradientNorm& norm, double most);

}  // namespace rueda
