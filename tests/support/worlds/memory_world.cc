// SPDX-License-Identifier: Apache-2.0
#include "tests/support/worlds/memory_world.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include "ops/algorithms/link_backend.h"
#include "ops/hierarchy/hierarchy_components.h"
#include "ops/local/local_backend.h"
#include "ops/shm/shm_components.h"

namespace rueda {
namespace {

constexpr auto kTimeout = std::chrono::seconds(120);  // under a sanitizer, on a busy machine

// Purpose: what the threads of one run share, guarded by its mutex.
struct Run {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Runtime*> runtimes;
  Rank ended = 0;
  std::exception_ptr first_failure;
};

void run_rank(Run& run, RuntimeComponents components, Rank rank, const std::function<void(Runtime&)>& body) {
  std::exception_ptr failure;
  try {
    Runtime runtime(std::move(components));
    {
      std::lock_guard lock(run.mutex);
      run.runtimes[rank] = &runtime;
    }
    try {
      body(runtime);
    } catch (...) {
      failure = std::current_exception();
      std::lock_guard lock(run.mutex);  // before the shutdown makes others fail
      if (!run.first_failure) run.first_failure = failure;
    }
    runtime.shutdown();
    std::lock_guard lock(run.mutex);
    run.runtimes[rank] = nullptr;
  } catch (...) {
    failure = std::current_exception();
  }
  std::lock_guard lock(run.mutex);
  if (failure && !run.first_failure) run.first_failure = failure;
  ++run.ended;
  run.changed.notify_all();
}

[[noreturn]] void give_up(const Run& run) {
  std::fprintf(stderr, "tests: the ranks did not end in time. What each was doing:\n");
  for (const Runtime* runtime : run.runtimes) {
    std::fputs(runtime != nullptr ? runtime->report().c_str() : "a rank that has not started or has ended\n",
               stderr);
  }
  std::fflush(stderr);
  std::_Exit(99);
}

}  // namespace

RuntimeComponents memory_components(MemoryNetwork& network, Rank rank, Rank ranks, const Config& config) {
  RuntimeComponents components;
  components.config = config;
  components.rank = rank;
  components.size = ranks;
  components.host = network.host(rank);
  components.doorbell = network.doorbell(rank);
  components.backends.push_back(std::make_unique<LocalBackend>());
  if (ranks > 1) {
    components.transport = network.transport(rank);
    // Nothing is measured: a test says which way it goes.
    std::optional<AlgorithmSelector> selector;
    if (config.short_bytes >= 0 || config.medium_bytes >= 0) selector.emplace("memory", config);
    components.backends.push_back(std::make_unique<LinkBackend>(
        "memory", network.link(rank), rank, true, network.memory(rank), [] { return true; }, selector));
    if (network.shm_slots() > 0) {
      add_hierarchy(components, add_shared_memory(components, network.shm_slots()));
      network.set_doorbell(rank, components.doorbell);
    }
  }
  return components;
}

void run_ranks_on(MemoryNetwork& network, Rank ranks, const std::function<void(Runtime&)>& body,
                  const Config& config) {
  run_ranks_on(network, ranks, body, [&](Rank) { return config; });
}

void run_ranks_on(MemoryNetwork& network, Rank ranks, const std::function<void(Runtime&)>& body,
                  const std::function<Config(Rank)>& config_of) {
  run_ranks_of(ranks, body,
               [&](Rank rank) { return memory_components(network, rank, ranks, config_of(rank)); });
}

void run_ranks_of(Rank ranks, const std::function<void(Runtime&)>& body,
                  const std::function<RuntimeComponents(Rank)>& parts_of) {
  Run run;
  run.runtimes.resize(ranks);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { run_rank(run, parts_of(rank), rank, body); });
  }
  {
    std::unique_lock lock(run.mutex);
    if (!run.changed.wait_for(lock, kTimeout, [&] { return run.ended == ranks; })) give_up(run);
  }
  for (std::thread& thread : threads) thread.join();
  if (run.first_failure) std::rethrow_exception(run.first_failure);
}

void run_ranks(Rank ranks, const std::function<void(Runtime&)>& body, Config config, std::size_t shm_slots) {
  MemoryNetwork network(ranks, shm_slots);
  run_ranks_on(network, ranks, body, config);
}

void run_on_one_host(Rank ranks, const std::function<void(Runtime&)>& body, const Config& config) {
  run_ranks(ranks, body, config, SegmentContents::kSlots);
}

}  // namespace rueda
