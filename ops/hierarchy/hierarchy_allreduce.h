// SPDX-License-Identifier: Apache-2.0
// Allreduce of ranks on several hosts.
#pragma once

#include <memory>
#include <span>

#include "core/engine/submissions/entry.h"
#include "ops/hierarchy/hierarchy_work.h"

namespace rueda::hierarchy_allreduce {

bool fits(const Plan& plan);
// How it is cut.
Slices slices_of(const Plan& plan, const HostGroups& groups, std::size_t most);

// Each host's owner of a slice combines the buffers of its host, the owners allreduce that among themselves.
// Cost of n bytes on h hosts: each sends and receives 2(h-1)/h n; inside a host as staged_allreduce, and one
// copy of each slice for each member. Partial sums travel, as ring_pass says: 16-bit floats are rounded once.
// With top-k a chunk is one slice, and the owners do a sparse_sum; each keeps back what its host does not
// send of its slices.
std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const HostContext& context);

}  // namespace rueda::hierarchy_allreduce
