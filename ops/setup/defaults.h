// SPDX-License-Identifier: Apache-2.0
// The list of transports and backends that init() tries.
#pragma once

#include <vector>

#include "core/engine/runtime_components.h"
#include "ops/bootstrap/launch.h"

namespace rueda::ops {

// The parts of this process's rank, by the BootstrapMethod that find_launch() returns. `ranks`: the started
// ranks that make up the job; empty: all.
RuntimeComponents defaults(const Config& config, const std::vector<Rank>& ranks);

// The same for a rank that is described already.
RuntimeComponents components_for(const Launch& launch, const Config& config, const std::vector<Rank>& ranks);

}  // namespace rueda::ops
