// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/pairwise_sum.h"

#include <utility>

namespace rueda {
namespace {

// Nothing is zeros, also to the sign of a zero: -0 + 0 is +0.
at::Tensor plus(at::Tensor left, at::Tensor right) {
  if (!left.defined()) std::swap(left, right);
  if (!left.defined()) return left;
  return right.defined() ? left.add_(right) : left.add_(0);
}

}  // namespace

at::ScalarType sum_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

void PairwiseSum::push(at::Tensor gradient) {
  std::size_t level = 0;
  for (int carry = passes_; carry % 2 == 1; carry /= 2, ++level)
    gradient = plus(std::exchange(levels_[level], at::Tensor()), std::move(gradient));
  if (level == levels_.size()) levels_.emplace_back();
  levels_[level] = std::move(gradient);
  ++passes_;
}

void PairwiseSum::add(int pass, at::Tensor gradient) {
  while (passes_ < pass) push({});
  push(gradient.to(sum_type(gradient.scalar_type())));
}

at::Tensor PairwiseSum::take(int passes) {
  if (passes_ == 0) return {};
  while (passes_ < passes) push({});
  at::Tensor sum = std::move(levels_.back());
  reset();
  return sum;
}

void PairwiseSum::reset() {
  levels_.clear();
  passes_ = 0;
}

}  // namespace rueda
