// SPDX-License-Identifier: Apache-2.0
// The size of all gradients together.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace rueda {

// Purpose: a norm that a device may still be computing; the host waits for that where it is read as a number,
// and only there. A plain value; any thread.
class GradientNorm {
 public:
  // That number, known on the host.
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a norm
  GradientNorm(double value = 0.0) : value_(value) {}
  // A scalar of float32 there.
  explicit GradientNorm(at::Tensor on_device) : tensor_(std::move(on_device)) {}

  // The norm as a number. The host waits for the device here.
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

}  // namespace rueda
