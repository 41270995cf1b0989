// SPDX-License-Identifier: Apache-2.0
// The inner loops of operations in shared memory.
#pragma once

#include <cstddef>
#include <span>

#include "ops/algorithms/reduction.h"

namespace rueda {

// Combines `elements` of all `sources`, in their order by a tree (tree_order.h), and writes the result to all
// `destinations`, which may be the sources: one pass, every line read and written once. The memory may belong
// to other cores' caches: lines are asked for as for writing.
void reduce_everywhere(const ScaledReduction& reduction, std::span<const std::byte* const> sources,
                       std::span<std::byte* const> destinations, std::size_t elements);

// Copies out of memory that other cores wrote and will write again.
void copy_out(void* to, const void* from, std::size_t bytes);

}  // namespace rueda
