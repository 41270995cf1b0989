// SPDX-License-Identifier: Apache-2.0
// Copies between a tensor of any strides and contiguous memory, in logical (row-major) order.
#pragma once

#include "core/base/tensor_view.h"

namespace rueda::kernels {

// The contiguous side holds view.bytes() bytes and does not overlap the tensor. Strides are not negative;
// `from` may have strides of 0 (an expanded tensor). Dimensions that continue each other are merged first,
// contiguous rows copied whole.
void pack(void* to, const ConstTensorView& from);
void unpack(const TensorView& to, const void* from);

// Contiguous copy by vector loops, without overlap: memcpy of more than some KiB becomes `rep movsb`, which
// is slow on lines another core holds.
void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace rueda::kernels
