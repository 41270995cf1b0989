// SPDX-License-Identifier: Apache-2.0
// Copies between a tensor of any strides and contiguous memory, in logical (row-major) order.
#pragma once

#include "core/base/tensor_view.h"

namespace rueda::kernels {

// `to` holds view.bytes() bytes, contiguous. Dimensions that can be merged are merged first; runs of at least one
// cache line are copied as such.
void pack(void* to, const ConstTensorView& from);
void unpack(const TensorView& to, const void* from);

// Plain contiguous copy by vector loops: memcpy becomes `rep movsb`, which is slow on lines another core holds.
void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace rueda::kernels
