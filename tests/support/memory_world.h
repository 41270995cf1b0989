// SPDX-License-Identifier: Apache-2.0
// Several ranks as threads of one process, each with a Runtime of its own.
#pragma once

#include <functional>

#include "core/engine/runtime.h"
#include "tests/support/memory_network.h"

namespace rueda {

// Runs `body` once for each rank, all at the same time, over a MemoryNetwork (one rank: the local backend).
// Throws the first exception that a body threw. A watchdog says what each rank was doing and ends the process
// when the whole takes too long.
void run_ranks(Rank ranks, const std::function<void(Runtime&)>& body, Config config = {});

// The same with the network at hand, for tests that break it.
void run_ranks_on(MemoryNetwork& network, Rank ranks, const std::function<void(Runtime&)>& body,
                  Config config = {});

// What run_ranks makes a Runtime of.
Parts memory_parts(MemoryNetwork& network, Rank rank, Rank ranks, const Config& config);

}  // namespace rueda
