// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/optimizers/norm.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

namespace rueda {

at::Tensor norm_of(const at::Tensor& values) {
  const at::ScalarType type = values.element_size() == 2 ? at::kFloat : values.scalar_type();
  return at::linalg_vector_norm(values, 2, std::nullopt, /*keepdim=*/false, type);
}

at::Tensor ratio_or_one(const at::Tensor& above, const at::Tensor& below) {
  return at::where(above.gt(0).logical_and_(below.gt(0)), above.div(below), at::ones_like(above));
}

}  // namespace rueda
