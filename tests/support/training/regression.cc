// SPDX-License-Identifier: Apache-2.0
#include "tests/support/training/regression.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

namespace rueda {
namespace {

// Numbers in (-1, 1) without a pattern that matters.
at::Tensor numbers(at::IntArrayRef sizes, std::int64_t first, double step, at::ScalarType type) {
  const std::int64_t count = c10::multiply_integers(sizes);
  const at::Tensor index = at::arange(first, first + count, at::kDouble);
  return (index * step).sin().reshape(sizes).to(type);
}

}  // namespace

Batch make_batch(std::int64_t first, std::int64_t rows, at::ScalarType type) {
  return {numbers({rows, 4}, first * 4, 1.7, type), numbers({rows, 2}, first * 2, 2.3, type)};
}

at::Tensor make_parameter(at::IntArrayRef sizes, int seed, at::ScalarType type) {
  return numbers(sizes, 1 + 1000 * seed, 0.9, type).requires_grad_(true);
}

Regression::Regression(int seed, at::ScalarType type, std::int64_t hidden)
    : named{{"hidden.weight", make_parameter({hidden, 4}, seed, type)},
            {"hidden.bias", make_parameter({hidden}, seed + 1, type)},
            {"output.weight", make_parameter({2, hidden}, seed + 2, type)},
            {"output.bias", make_parameter({2}, seed + 3, type)}} {
  const at::NoGradGuard no_grad;
  if (hidden > 8) named[2].second.mul_(8.0 / static_cast<double>(hidden));  // sums as large as of 8
}

at::Tensor Regression::loss(const Batch& batch) const {
  const at::Tensor hidden = at::linear(batch.inputs, named[0].second, named[1].second).tanh();
  return at::mse_loss(at::linear(hidden, named[2].second, named[3].second), batch.targets);
}

std::vector<at::Tensor> Regression::tensors() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0.0;
  return (a.detach().to(at::kDouble) - b.detach().to(at::kDouble)).abs().max().item<double>();
}

}  // namespace rueda
