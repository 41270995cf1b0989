// SPDX-License-Identifier: Apache-2.0
// The functions of powersgd_math.h for matrices on a device: by LibTorch's operations, on this thread's
// current stream. The host waits for none of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rueda {

// The rows (count x length) with the length 1; instead of one that has none, or is not finite, a direction
// that `seed` and its number determine. Devices that differ may differ in last bits.
at::Tensor directions_on_device(const at::Tensor& rows, std::uint64_t seed);

// Makes the rows orthonormal, in order, as make_orthonormal. Devices that differ may differ in last bits: let
// one rank do it for all.
void make_orthonormal_on_device(const at::Tensor& rows);

// `gradient` (rows x columns) becomes first^T all, and `residual` becomes the gradient less first^T own,
// unless `all` has a value that is not finite. The same bits in `gradient` wherever those of `first` and
// `all` are the same: each value is made of the same products, in order, by itself. Cost: as many passes over
// it as the factors have rows.
void reconstruct_on_device(const at::Tensor& gradient, at::Tensor& residual, const at::Tensor& first,
                           const at::Tensor& own, const at::Tensor& all);

}  // namespace rueda
