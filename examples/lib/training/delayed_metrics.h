// SPDX-License-Identifier: Apache-2.0
// Numbers that a device has not computed yet.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

namespace rueda::examples {

// Purpose: the values of a tensor of float64 as numbers. They travel to the host behind the operations that
// compute them: the device does not stop for it, and the host waits when it reads. For a tensor in the host's
// memory the numbers are there at once. Used by one thread.
class DelayedMetrics {
 public:
  DelayedMetrics() = default;
  explicit DelayedMetrics(const at::Tensor& values);
  std::vector<double> read() const;

 private:
  at::Tensor values_;  // in the host's memory
  std::optional<c10::Event> there_;
};

}  // namespace rueda::examples
