// SPDX-License-Identifier: Apache-2.0
// The barriers of all ranks of a sharded optimizer before and after each has stepped its part.
#pragma once

#include <string>

#include "core/engine/runtime.h"
#include "rueda/status.h"

namespace rueda {

// Returns when all ranks have come here. Throws on all when one of them refuses (`own` is not ok), or has
// joined or left. They are about to do `action` to `subject`: "step" "a ShardedOptimizer", say. Collective,
// under `name`.
void barrier_before(const std::string& name, const std::string& action, const std::string& subject,
                    const Status& own, Runtime& runtime);

// Returns when all ranks have stepped. Throws BackendError on those that are `well` when another is not.
// Collective, under `name`.
void barrier_after_step(const std::string& name, bool well, Runtime& runtime);

}  // namespace rueda
