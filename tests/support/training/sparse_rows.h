// SPDX-License-Identifier: Apache-2.0
// Embeddings of which ranks use few rows, on any device.
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/embedding.h>

#include <vector>

#include "rueda/torch/reducer/distributed_options.h"
#include "rueda/types.h"

namespace rueda {

inline constexpr std::int64_t kWords = 100;

inline DistributedOptions by_density() {
  DistributedOptions options;
  options.sparse = SparseGradients::by_density;
  return options;
}

// The sum of these rows, each times its position in the list: a sparse gradient.
inline at::Tensor sparse_loss(const at::Tensor& table, const std::vector<std::int64_t>& rows) {
  namespace functional = torch::nn::functional;
  const at::Tensor found = functional::embedding(at::tensor(rows, at::kLong).to(table.device()), table,
                                                 functional::EmbeddingFuncOptions().sparse(true));
  const at::Tensor positions = at::arange(1, static_cast<double>(rows.size()) + 1, at::kDouble);
  return (found * positions.unsqueeze(1).to(table.device())).sum();
}

inline at::Tensor dense_gradient(const std::vector<std::int64_t>& rows) {
  at::Tensor gradient = at::zeros({kWords, 3}, at::kDouble);
  for (std::size_t i = 0; i < rows.size(); ++i) gradient[rows[i]] += static_cast<double>(i + 1);
  return gradient;
}

// Rows that ranks have in common, one twice, and one of its own.
inline std::vector<std::int64_t> rows_of(Rank rank) { return {7, 3, 7, 20 + rank}; }

inline at::Tensor mean_gradient(Rank ranks) {
  at::Tensor sum = at::zeros({kWords, 3}, at::kDouble);
  for (Rank rank = 0; rank < ranks; ++rank) sum += dense_gradient(rows_of(rank));
  return sum / ranks;
}

}  // namespace rueda
