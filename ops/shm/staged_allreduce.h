// SPDX-License-Identifier: Apache-2.0
// Allreduce of any size through shared memory, for tensors that lie in ordinary memory.
#pragma once

#include <memory>
#include <span>

#include "core/engine/submissions/entry.h"
#include "ops/buffers/work_memory.h"
#include "ops/shm/staged_work.h"

namespace rueda::staged_allreduce {

bool fits(const Plan& plan);

// The fused tensors are packed chunk by chunk; each rank reduces one slice of a chunk over the buffers of all
// and writes the result into all of them; each unpacks its own buffer. Cost of n bytes on p ranks: two copies
// of n by each rank; of n/p bytes, p reads and p writes.
//
// Cache lines migrate, they are never shared: whoever reads a line of a buffer asks for it as for writing, so
// that the next one to write it finds it whole in one cache. (Reading alone leaves the line shared, and its
// owner's next write waits until all copies are gone, which no prefetcher hides: 3 to 8 times slower.) Or
// what is packed, and results, are streamed past the cache, which takes no line over: store_policy.h.
//
// All combine in the order of ranks: the same bits everywhere, whatever the chunks. 16-bit floats are
// accumulated in float32 and rounded once.
std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const WorkContext& context,
                            const Memory& memory);

}  // namespace rueda::staged_allreduce
