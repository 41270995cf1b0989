// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter: the reducing half of a ring, or in a fixed order an ordered_pass. Rank r keeps its share of
// the rows.
#pragma once

#include <memory>

#include "core/engine/submissions/entry.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/schedules/scaled_reduction.h"

namespace rueda {

// Rows are shared out as evenly as they go, the first ranks get the remainder. Allocates the entry's output.
std::unique_ptr<Algorithm> reducescatter(const Route& route, const ScaledReduction& reduction, Entry& entry);

// How many of `rows` rank `rank` of `size` gets.
std::int64_t share_of_rows(std::int64_t rows, Rank rank, Rank size);

}  // namespace rueda
