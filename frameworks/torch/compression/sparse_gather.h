// SPDX-License-Identifier: Apache-2.0
// The sum of sparse gradients of all ranks, kept sparse. Gradients of embeddings: some rows of all.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "rueda/torch/collectives/operations.h"

namespace rueda {

// Whether a gradient is one of rows: sparse in its first dimension only, as those of embeddings are.
bool is_of_rows(const at::Tensor& gradient);
// Stored rows of all there are.
double density_of(const at::Tensor& rows);
// A coalesced gradient of a parameter, of no rows.
at::Tensor no_rows_of(const at::Tensor& parameter);

// Purpose: one sum on its way: the rows of all ranks, and which they are, are gathered and added up. Ranks
// may have different numbers of rows. Cost: each rank receives the rows of all. Collective; belongs to a
// ReductionRound. May be dropped: it then runs to its end.
class SparseGather {
 public:
  // `rows`: this rank's, coalesced. `factor`: of the sum.
  SparseGather(const std::string& name, const at::Tensor& rows, double factor, const Scope& scope);

  // Waits. Then result() is the sum, coalesced, if this is ok.
  Status wait();
  const at::Tensor& result() const { return result_; }

 private:
  double factor_;
  std::vector<std::int64_t> sizes_;
  TensorHandle indices_;  // [rows]
  TensorHandle values_;   // [rows, ...]
  at::Tensor result_;
};

}  // namespace rueda
