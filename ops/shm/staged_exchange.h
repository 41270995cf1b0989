// SPDX-License-Identifier: Apache-2.0
// Allgather, alltoall, broadcast and reducescatter of any size through shared memory.
#pragma once

#include <memory>

#include "core/engine/submissions/entry.h"
#include "ops/buffers/work_memory.h"
#include "ops/shm/staged_work.h"

namespace rueda::staged_exchange {

bool fits(const Plan& plan);

// Each rank packs its values for others, and takes its own values out of the buffers of all. Values for one
// rank only, and values to be reduced, are cut into as many pieces a chunk as there are ranks. So all have
// something to take at a time. If the numbers of rows differ by rank (allgather, alltoall), chunk 0 tells
// them. Cost of n bytes that a rank gives: one copy in, one out.
std::unique_ptr<Work> start(const Plan& plan, Entry& entry, const WorkContext& context, const Memory& memory);

}  // namespace rueda::staged_exchange
