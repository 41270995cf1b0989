// SPDX-License-Identifier: Apache-2.0
// Adds the backends that move data through the memory of a host before it goes from host to host.
#pragma once

#include "core/engine/runtime_components.h"
#include "ops/shm/shm_components.h"

namespace rueda {

// Adds a HierarchyBackend over each LinkBackend of `components`, before the first of them. `shared` is what
// add_shared_memory() gave.
void add_hierarchy(RuntimeComponents& components, const SharedMemory& shared);

}  // namespace rueda
