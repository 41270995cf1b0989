// SPDX-License-Identifier: Apache-2.0
// The inner loop of reductions in shared memory.
#pragma once

#include <cstddef>
#include <span>

#include "ops/schedules/scaled_reduction.h"

namespace rueda {

// How results are stored. Streamed ones go past the caches, but for those of destination number `own`; only
// where all others begin at lines of cache.
struct Stores {
  bool streamed = false;
  std::size_t own = 0;
};

// Combines `elements` of all `sources`, in their order by a tree (reduction_tree.h), and writes the result
// to all `destinations`, which may be the sources: one pass, every line read and written once. The memory may
// belong to other cores' caches: lines of the sources are got as for writing, unless stores are streamed.
void reduce_everywhere(const ScaledReduction& reduction, std::span<const std::byte* const> sources,
                       std::span<std::byte* const> destinations, std::size_t elements, Stores stores = {});

// The same into accumulators, without the postscale: partial sums, which are to be combined with others.
void sum_up(const ScaledReduction& reduction, std::span<const std::byte* const> sources, std::byte* sums,
            std::size_t elements);

}  // namespace rueda
