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
// A slot is memory of its own, or, for few values, in the line of the flag.
//
// Each rank writes its own slot and its own flag alone; of a broadcast the root alone writes a slot, and
// leaves at once. A flag is the Plan's number * 2^24 + a phase. It only grows: Works begin in the order of
// Plans, and a slot's next Work waits for its last one. `written` says that the slot holds the values of this
// Plan. `left` says that this rank has read its part of the slots. A rank writes its slot only when every
// member of the slot's last Plan, itself included, has left that Plan. So nobody still reads the slot, and a
// Plan needs nothing of ranks that are not in it. All ranks combine in one order, a tree over the ranks: the
// same bits everywhere. A rank that abandons a Plan before it has written says `abandoned`. This flag stays
// until all members have left that Plan, and makes the Plan void for those that wait for its values. A rank
// that has written just leaves.
//
// Doorbells: `abandoned` rings all members, `written` those that await this one (PeerGroup::ring_who_awaits).
// `left` rings only members that wait for it. A waiting member sets `wanted`, then looks at the flag once
// more. A leaving member stores the flag, then looks at `wanted`, both seq_cst.
std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const WorkContext& context);

}  // namespace rueda::one_shot
