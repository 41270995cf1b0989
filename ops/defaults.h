// SPDX-License-Identifier: Apache-2.0
// The list of transports and backends that init() tries.
#pragma once

#include "core/engine/parts.h"

namespace rueda::ops {

// The parts of this process's rank: over MPI when it is one of several, else alone.
Parts defaults(const Config& config);

}  // namespace rueda::ops
