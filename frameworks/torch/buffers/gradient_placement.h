// SPDX-License-Identifier: Apache-2.0
// The memory of a gradient, as far as windows of devices are concerned.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rueda {

enum class GradientPlacement : std::uint8_t {
  none,       // there is no slot for it
  in_slot,    // it lies in its slot
  elsewhere,  // it has a slot, and lies outside it
};

// A gradient in the memory in which it is reduced.
struct PlacedGradient {
  at::Tensor tensor;
  GradientPlacement placement = GradientPlacement::none;
};

}  // namespace rueda
