// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_norm.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cmath>
#include <span>

namespace rueda {
namespace {

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad().detach());
  }
  return gradients;
}

bool is_sparse(const at::Tensor& gradient) { return gradient.layout() == at::kSparse; }

}  // namespace

double norm_of_gradients(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values = gradients_of(parameters);
  if (values.empty()) return 0.0;
  for (at::Tensor& each : values) {
    if (is_sparse(each)) each = each.coalesce().values();
  }
  const at::Tensor norms = at::stack(at::_foreach_norm(values, 2, at::kDouble));
  return static_cast<float>(at::linalg_vector_norm(norms).item<double>());
}

void scale_gradients(const std::vector<at::Tensor>& parameters, double factor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values = gradients_of(parameters);
  for (at::Tensor& each : values) {
    if (is_sparse(each)) each = each._values();
  }
  if (!values.empty()) at::_foreach_mul_(values, factor);
}

double SharedNorm::of(double share_of_square_sum) const {
  std::array<double, 1> sum{share_of_square_sum};
  const TensorView both = view(std::span<double>(sum));
  allreduce_async(name_, both, both, {ReduceOp::sum}, scope_.get()).wait();
  return static_cast<float>(std::sqrt(sum[0]));
}

}  // namespace rueda
