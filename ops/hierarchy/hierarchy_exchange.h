// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter, allgather and broadcast of ranks on several hosts.
#pragma once

#include <memory>

#include "core/engine/submissions/entry.h"
#include "ops/hierarchy/hierarchy_work.h"

namespace rueda::hierarchy_exchange {

bool fits(const Plan& plan, const HostGroups& groups);
// How it is cut.
Slices slices_of(const Plan& plan, const HostGroups& groups, std::size_t most);

// Reduce-scatter: as an allreduce, but owners reduce round a ring only, and each member gets its share. Each
// host sends (h-1)/h of the input.
// Allgather: see hierarchy_allgather.h.
// Broadcast: owners pass slices on from the root's host to the next and so on; what is short goes by a tree
// over the hosts. Each host sends at most what it receives, the root's host all of it once.
std::unique_ptr<Work> start(const Plan& plan, Entry& entry, const HostContext& context);

}  // namespace rueda::hierarchy_exchange
