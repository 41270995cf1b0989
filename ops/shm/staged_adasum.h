// SPDX-License-Identifier: Apache-2.0
// Adasum through shared memory.
#pragma once

#include <memory>
#include <span>

#include "core/engine/operations/entry.h"
#include "ops/buffers/work_memory.h"
#include "ops/shm/staged_work.h"

namespace rueda::staged_adasum {

bool fits(const Plan& plan);

// Chunks of the area, in this order: of the vectors, a piece for each rank, which goes into its AdasumShare;
// for each level of the tree the products of all parts, which every rank sums up; of the result, each rank's
// share, which all take. What a chunk needs is computed when it is to be packed. Cost of n elements on p
// ranks: each rank packs n, takes n, multiplies and combines n (p-1)/p, and takes n again; scratch of n
// accumulators (AdasumShare).
std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const WorkPlace& place,
                            const Memory& memory);

}  // namespace rueda::staged_adasum
