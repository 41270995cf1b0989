// SPDX-License-Identifier: Apache-2.0
// Allgather of ranks on several hosts.
#pragma once

#include <memory>

#include "core/engine/submissions/entry.h"
#include "ops/hierarchy/hierarchy_work.h"

namespace rueda::hierarchy_allgather {

// Chunk 0 tells how many rows each member gives; then each host's owner of a slice collects what its host
// gives, and owners gather round a ring. Cost: each host sends (h-1)/h of the output, of h hosts.
std::unique_ptr<Work> start(const Plan& plan, Entry& entry, const HostContext& context, Slices slices);

}  // namespace rueda::hierarchy_allgather
