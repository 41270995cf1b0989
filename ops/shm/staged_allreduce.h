// SPDX-License-Identifier: Apache-2.0
// Allreduce of any size through shared memory, for tensors that lie in ordinary memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/control/plan.h"
#include "core/engine/entry.h"
#include "core/engine/work.h"
#include "ops/memory.h"
#include "ops/shm/neighbours.h"

namespace rueda::staged_allreduce {

bool fits(const Plan& plan);

// What this rank remembers about one of its areas: the last Plan that used it, and who took part.
struct Use {
  std::uint64_t plan = 0;
  std::vector<Rank> members;
};

// `area` is the same on all `members` (this rank too, ascending), `last` what used it before; it becomes this
// Plan.
//
// The fused tensors pass through the area chunk by chunk. Each rank copies its chunk into a buffer of its own
// area and says `written`; when all have, each reduces one slice of the chunk over the buffers of all, writes
// the result into all of them and says `reduced`; when all have, each copies the chunk out of its own buffer.
// Two buffers, so that nobody waits while there is something to copy. Cost of n bytes on p ranks: two copies
// of n by each rank; of n/p bytes, p reads and p writes.
//
// Cache lines migrate, they are never shared: whoever reads a line of a buffer asks for it as for writing, so
// that the next one to write it finds it whole in one cache. (Reading alone leaves the line shared, and its
// owner's next write waits until all copies are gone, which no prefetcher hides: 3 to 8 times slower.)
//
// `written` and `reduced` are the Plan's number * 2^24 + a count of chunks, `left` is the Plan's number; each
// is written by its rank alone and only grows. A rank begins only when all members of the area's last Plan,
// itself included, have left that Plan: so a Plan's words stay until all have seen them, and nobody still
// writes into its buffers. Who abandons a Plan says so by a count of kVoid, which whoever waits for it sees;
// it then leaves at once: its tensors are its own, and what others still write into its buffers ends before
// they leave.
//
// All combine in the order of ranks: the same bits everywhere, whatever the chunks. 16-bit floats are
// accumulated in float32 and rounded once.
std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, Neighbours& neighbours, Rank rank,
                            std::vector<Rank> members, std::size_t area, Use& last, const Memory& memory);

}  // namespace rueda::staged_allreduce
