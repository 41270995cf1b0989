// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/compression/powersgd_device.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/where.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace rueda {
namespace {

constexpr double kRounding = 1e-12;  // of a length: the most that rounding leaves of nothing

// Purpose: of the types that tensors have, also where the program is inside of autocast. On the stack.
struct WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

// Numbers that look random, from -1 to 1, in float64. Made there, so that nothing is copied from the host.
at::Tensor scattered(const at::Tensor& like, std::uint64_t seed) {
  constexpr std::uint64_t kSeeds = 65536;
  constexpr double kApart = 977.0, kStep = 12.9898,
                   kSpread = 43758.5453;  // the digits behind the comma count
  const at::Tensor indices = at::arange(like.numel(), like.options().dtype(at::kDouble));
  const at::Tensor wide =
      (indices + kApart * static_cast<double>(seed % kSeeds)).mul_(kStep).sin_().mul_(kSpread);
  return (wide - wide.floor()).mul_(2.0).sub_(1.0).view(like.sizes());
}

at::Tensor lengths_of(const at::Tensor& rows) {
  return at::linalg_vector_norm(rows, 2, {1}, /*keepdim=*/true);
}

}  // namespace

at::Tensor directions_on_device(const at::Tensor& rows, std::uint64_t seed) {
  const WithoutAutocast types;
  const at::Tensor exact = rows.to(at::kDouble), fresh = scattered(rows, seed);
  const at::Tensor lengths = lengths_of(exact);
  const at::Tensor alive = at::isfinite(lengths).logical_and_(lengths.gt(0.0));
  return at::where(alive, exact / lengths, fresh / lengths_of(fresh)).to(rows.scalar_type());
}

// Gram-Schmidt in float64, each row twice.
void make_orthonormal_on_device(const at::Tensor& rows) {
  const WithoutAutocast types;
  const at::Tensor exact = rows.to(at::kDouble);
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const at::Tensor row = exact.narrow(0, i, 1), done = exact.narrow(0, 0, i);
    const at::Tensor before = lengths_of(row);
    for (int turn = 0; turn < 2 && i > 0; ++turn) row.sub_(at::mm(at::mm(row, done.t()), done));
    const at::Tensor length = lengths_of(row);
    const at::Tensor none_left = at::isfinite(length).logical_and_(length.le(before * kRounding));
    row.copy_(at::where(none_left, 0.0, row / length));
  }
  if (!exact.is_same(rows)) rows.copy_(exact);
}

void reconstruct_on_device(const at::Tensor& gradient, at::Tensor& residual, const at::Tensor& first,
                           const at::Tensor& own, const at::Tensor& all) {
  const WithoutAutocast types;
  const at::Tensor finite = at::isfinite(all).all();
  residual = at::where(finite, at::addmm(gradient, first.t(), own, 1, -1), residual);
  at::Tensor result = gradient;
  at::mul_out(result, first.select(0, 0).unsqueeze(1), all.select(0, 0).unsqueeze(0));
  for (std::int64_t k = 1; k < first.size(0); ++k)
    result.addcmul_(first.select(0, k).unsqueeze(1), all.select(0, k).unsqueeze(0));
}

}  // namespace rueda
