// SPDX-License-Identifier: Apache-2.0
// Allreduce of several tensors, or of one that is not contiguous, in a fusion buffer: pack, reduce, unpack.
#pragma once

#include <memory>
#include <span>

#include "core/engine/submissions/entry.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/buffers/fusion_buffer.h"

namespace rueda {

// Offsets in the buffer come from the Plan. Cost: that of contiguous_allreduce, and two copies of every
// tensor.
std::unique_ptr<Algorithm> fused_allreduce(const Route& route, const Plan& plan, std::span<Entry> entries,
                                           FusionBuffer& buffers);

}  // namespace rueda
