// SPDX-License-Identifier: Apache-2.0
// Allreduce and broadcast of a few KiB, and barrier, in one step through shared memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/control/messages/plan.h"
#include "core/engine/submissions/entry.h"
#include "core/engine/work.h"
#include "ops/shm/peer_group.h"

namespace rueda::one_shot {

// Whether the values of `plan`, of an allreduce as accumulators, have room in a slot.
bool fits(const Plan& plan);

// Cost: two rounds of flags; each rank reads the slots of all, or of the root.
//
// Each rank writes its own slot and its own flag alone; of a broadcast the root alone writes a slot, and
// leaves at once. A flag is the Plan's number * 2^24 + a phase: it only grows, since Works begin in the order
// of Plans and a slot's next Work waits for its last one. `written` says that the slot holds the values of
// this Plan, `left` that this rank has read what it wants of the slots. A rank writes its slot only when
// every member of the slot's last Plan, itself included, has left that Plan: so nobody still reads it, and a
// Plan needs nothing of ranks that are not in it. All ranks combine in one order, a tree over the ranks: the
// same bits everywhere. Who abandons a Plan before it has written says `abandoned`, which stays until all
// members have left that Plan, and tells those who wait for its values that theirs is void too; after that it
// just leaves.
//
// Doorbells: `abandoned` rings all members, `written` those that await this one (PeerGroup::ring_who_awaits).
// `left` rings only members that wait for it: these set `wanted`, then look at the flag once more; who leaves
// stores the flag, then looks at `wanted`, both seq_cst.
std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const WorkContext& context);

}  // namespace rueda::one_shot
