// SPDX-License-Identifier: Apache-2.0
// Shared memory for a rank that has other parts already.
#pragma once

#include <memory>

#include "core/engine/runtime_components.h"
#include "ops/link/host_groups.h"
#include "ops/shm/local_peers.h"

namespace rueda {

// The objects that other backends may use too.
struct SharedMemory {
  std::shared_ptr<LocalPeers> local_peers;
  std::shared_ptr<Hosts> hosts;
};

// Gives `components`, of one rank of several, a segment, a tree_transport over the one they have, and the shm
// backend before theirs. All ranks of a job have these, in the same order, so that rank 0 can name a backend
// by its number; one that has no segment, because RUEDA_SHM is 0 or memory is short, just uses the others.
SharedMemory add_shared_memory(RuntimeComponents& components, std::size_t slots = SegmentContents::kSlots);

}  // namespace rueda
