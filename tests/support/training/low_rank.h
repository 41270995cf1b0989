// SPDX-License-Identifier: Apache-2.0
// What tests of gradients that travel as two factors reduce.
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "rueda/torch/reducer/gradient_reducer.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {

constexpr std::int64_t kMatrixRows = 40, kMatrixColumns = 30;

inline DistributedOptions at_rank(int rank) {
  DistributedOptions options;
  options.low_rank.rank = rank;
  return options;
}

// Of full rank, which make_parameter's are not; values in (-1, 1).
inline at::Tensor matrix_of(int seed, at::IntArrayRef sizes = {kMatrixRows, kMatrixColumns},
                            at::ScalarType type = at::kDouble) {
  return at::sin(make_parameter(sizes, seed).detach() * 1000.0).to(type);
}

// Of rank `rank`; those of one `seed` have their columns in common.
inline at::Tensor thin_matrix(int rank, int seed, int own) {
  return at::mm(matrix_of(seed, {kMatrixRows, rank}), matrix_of(own, {rank, kMatrixColumns}));
}

// The gradient of `weight` in this step becomes the mean, or sum, of what the ranks give.
inline void reduce_by(GradientReducer& reducer, const at::Tensor& weight, const at::Tensor& gradient) {
  reducer.before_zero_grad();
  weight.mutable_grad().reset();
  (weight * gradient).sum().backward();
  reducer.synchronize();
}

inline void in_both_worlds(Rank ranks, const std::function<void(Runtime&)>& body) {
  run_ranks(ranks, body);
  run_on_one_host(ranks, body);
}

}  // namespace rueda
