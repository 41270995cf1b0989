// SPDX-License-Identifier: Apache-2.0
// Several ranks as threads of one process, each with a Runtime of its own.
#pragma once

#include <functional>

#include "core/engine/runtime.h"
#include "tests/support/worlds/memory_network.h"

namespace rueda {

// Runs `body` once for each rank, all at the same time, over a MemoryNetwork (one rank: the local backend).
// Throws the first exception that a body threw. A watchdog says what each rank was doing and ends the process
// when the whole takes too long.
// `shm_slots`: see MemoryNetwork.
void run_ranks(Rank ranks, const std::function<void(Runtime&)>& body, Config config = {},
               std::size_t shm_slots = 0);

// The same as ranks of one host that share memory.
void run_on_one_host(Rank ranks, const std::function<void(Runtime&)>& body, const Config& config = {});

// The same with the network at hand, for tests that break it.
void run_ranks_on(MemoryNetwork& network, Rank ranks, const std::function<void(Runtime&)>& body,
                  const Config& config = {});
// The same with settings for each rank.
void run_ranks_on(MemoryNetwork& network, Rank ranks, const std::function<void(Runtime&)>& body,
                  const std::function<Config(Rank)>& config_of);

// The same on parts of the test's own.
void run_ranks_of(Rank ranks, const std::function<void(Runtime&)>& body,
                  const std::function<RuntimeComponents(Rank)>& parts_of);

// What run_ranks makes a Runtime of.
RuntimeComponents memory_components(MemoryNetwork& network, Rank rank, Rank ranks, const Config& config);

}  // namespace rueda
