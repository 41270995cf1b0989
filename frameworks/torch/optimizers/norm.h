// SPDX-License-Identifier: Apache-2.0
// Norms of whole parameters. They stay on the parameter's device: nobody waits for a GPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace rueda {

// The Euclidean norm, as a tensor of no dimensions; of 16-bit values in float32.
at::Tensor norm_of(const at::Tensor& values);

// `above` / `below` where both are greater than zero, else 1.
at::Tensor ratio_or_one(const at::Tensor& above, const at::Tensor& below);

}  // namespace rueda
