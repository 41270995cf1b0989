// SPDX-License-Identifier: Apache-2.0
// The inner loops of operations in shared memory.
#pragma once

#include <cstddef>
#include <span>

#include "ops/algorithms/reduction.h"

namespace rueda {

// Combines `elements` of all `copies`, in their order by a tree (tree_order.h), and writes the result into
// each of them: one pass, every line read and written once. The memory may belong to other cores' caches:
// lines are asked for as for writing.
void reduce_everywhere(const ScaledReduction& reduction, std::span<std::byte* const> copies,
                       std::size_t elements);

// The same with the result in `output`, which may lie anywhere.
void reduce_into(std::byte* output, const ScaledReduction& reduction, std::span<std::byte* const> copies,
                 std::size_t elements);

// Copies out of memory that other cores wrote and will write again.
void copy_out(void* to, const void* from, std::size_t bytes);

}  // namespace rueda
