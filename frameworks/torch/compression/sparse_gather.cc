// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/compression/sparse_gather.h"

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

namespace rueda {
namespace {

// Coalesced only if the indices are in order, each once.
at::Tensor of_rows(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes) {
  return at::_sparse_coo_tensor_unsafe(indices.unsqueeze(0), values, sizes,
                                       values.options().layout(at::kSparse));
}

}  // namespace

bool is_of_rows(const at::Tensor& gradient) {
  return gradient.layout() == at::kSparse && gradient.sparse_dim() == 1;
}

double density_of(const at::Tensor& rows) {
  return rows.size(0) > 0 ? static_cast<double>(rows._nnz()) / static_cast<double>(rows.size(0)) : 0.0;
}

at::Tensor no_rows_of(const at::Tensor& parameter) {
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  sizes[0] = 0;
  const at::Tensor none = at::empty({0}, parameter.options().dtype(at::kLong));
  return of_rows(none, at::empty(sizes, parameter.options()), parameter.sizes()).coalesce();
}

SparseGather::SparseGather(const std::string& name, const at::Tensor& rows, double factor, const Scope& scope)
    : factor_(factor),
      sizes_(rows.sizes().vec()),
      indices_(allgather_async(rows.indices().select(0, 0), name + ".indices", scope)),
      values_(allgather_async(rows.values(), name + ".values", scope)) {}

Status SparseGather::wait() {
  Status status = indices_.wait_status();
  const Status values_status = values_.wait_status();
  if (status.ok()) status = values_status;
  if (!status.ok()) return status;
  const at::NoGradGuard no_grad;
  const at::Tensor indices = indices_.wait(), values = values_.wait();
  const at::Tensor on_host = indices.cpu();
  const auto* first = on_host.const_data_ptr<std::int64_t>();
  // Row numbers from other ranks are checked before they are used as indices into memory.
  const bool fits = indices.size(0) == values.size(0) &&
                    std::all_of(first, first + indices.numel(),
                                [&](std::int64_t row) { return row >= 0 && row < sizes_[0]; });
  if (!fits) return Status::mismatch("the ranks' sparse gradients have rows that the parameter has not");
  const at::Tensor sum = of_rows(indices, values, sizes_).coalesce();
  result_ = factor_ == 1.0 ? sum : at::mul(sum, factor_);
  return status;
}

}  // namespace rueda
