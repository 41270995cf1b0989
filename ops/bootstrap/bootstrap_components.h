// SPDX-License-Identifier: Apache-2.0
// A rank of several that finds the others without MPI.
#pragma once

#include <vector>

#include "core/engine/runtime_components.h"
#include "ops/bootstrap/launch.h"

namespace rueda {

// A rank with a transport to and from rank 0, and no backend yet. `ranks`: those of all that were started
// that make up the job, this one among them; empty: all. Throws BackendError and InvalidArgument.
RuntimeComponents bootstrap_components(const Config& config, Launch launch, std::vector<Rank> ranks);

}  // namespace rueda
