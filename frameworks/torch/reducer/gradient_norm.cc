// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/gradient_norm.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cmath>
#include <span>

#include "rueda/rueda.h"

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

GradientNorm norm_of_gradients(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values = gradients_of(parameters);
  if (values.empty()) return 0.0;
  for (at::Tensor& each : values) {
    if (is_sparse(each)) each = each.coalesce().values();
  }
  std::vector<at::Tensor> norms = at::_foreach_norm(values, 2, at::kDouble);
  for (at::Tensor& each : norms)
    each = each.to(norms[0].device(), /*non_blocking=*/true);  // of a model in parts
  const at::Tensor norm = at::linalg_vector_norm(at::stack(norms)).to(at::kFloat);
  return norm.is_cpu() ? GradientNorm(norm.item<double>()) : GradientNorm(norm);
}

bool clip_gradients(const std::vector<at::Tensor>& parameters, const GradientNorm& norm, double most) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values = gradients_of(parameters);
  for (at::Tensor& each : values) {
    if (is_sparse(each)) each = each._values();
  }
  if (const at::Tensor& there = norm.on_device(); there.defined()) {
    const at::Tensor clips = at::isfinite(there).logical_and_(there.gt(most));
    const at::Tensor factor = at::where(clips, there.to(at::kDouble).reciprocal().mul(most), 1.0);
    for (const at::Tensor& each : values) each.mul_(factor.to(each.device(), /*non_blocking=*/true));
    return false;
  }
  const double now = norm;
  if (values.empty() || now <= most || !std::isfinite(now)) return false;
  at::_foreach_mul_(values, most / now);
  return true;
}

void SharedNorm::measure(double share_of_square_sum) {
  std::array<double, 1> sum{share_of_square_sum};
  const TensorView both = view(std::span<double>(sum));
  allreduce_async(name_, both, both, {ReduceOp::sum}, scope_.get().awaited()).wait();
  last_ = static_cast<float>(std::sqrt(sum[0]));
}

}  // namespace rueda
