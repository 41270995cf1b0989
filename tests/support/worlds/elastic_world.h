// SPDX-License-Identifier: Apache-2.0
// An elastic job whose workers are threads: the ruedarun and the agents of their tests.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/control/membership/membership.h"
#include "core/engine/runtime_components.h"
#include "core/engine/wait/event_count.h"
#include "ops/bootstrap/address/key_value_store.h"

namespace rueda {

// Purpose: decides by the real Membership, and tells each worker at once. A worker dies in two steps: from
// die() on its Runtime sees no other rank, so it stops where it is, without a farewell; tell_lost() tells
// ruedarun, if nobody has. Any thread may call it. Outlives the workers.
class ElasticWorld {
 public:
  // Workers 0 to `first` - 1 make up generation 0. A generation has at least one.
  ElasticWorld(Rank first, Rank most);

  // As ElasticWorker::next_generation() does it. Nothing: the job is over.
  std::optional<Generation> next_generation(Worker worker, std::optional<std::uint64_t> tried);
  // The worker as a rank of that generation, on `host`, with all that init() gives it.
  RuntimeComponents components(Worker worker, const Generation& generation, const std::string& host);

  void tell_formed(Worker worker, std::uint64_t generation);
  void tell_lost(Worker worker);
  void tell_finished(Worker worker);
  bool joiners_wait();
  // The numbers of that many workers that are to be started; they count as started from then on.
  std::vector<Worker> take_wanted();

  // False, and it lives on, where it is the last one. `seen_at_once`: ruedarun hears of it before the
  // connections of the worker end.
  bool die(Worker worker, bool seen_at_once);
  bool is_dead(Worker worker);
  // The worker calls shutdown() before the others do.
  void leave(std::uint64_t generation);
  // Some member has died or left, or a newer generation is there: only then may an operation fail.
  bool is_broken(std::uint64_t generation);
  // Why the job cannot go on; empty.
  std::string failure();

 private:
  struct Process {
    bool dead = false;  // from die() on
    bool seen_at_once = false;
    bool told = false;                   // ruedarun knows that it is lost
    std::weak_ptr<EventCount> doorbell;  // of its Runtime
  };

  // With the lock.
  void tell_all();
  void note_lost(Worker worker, Process& process);
  std::vector<Rank> newly_failed(Worker worker, const Generation& generation, std::size_t& seen);

  std::shared_ptr<KeyValueStore> store_of(std::uint64_t generation);

  const Rank most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Membership membership_;
  std::map<Worker, Process> processes_;  // those that live, or die
  Worker next_;                          // the number of the next worker
  std::vector<Worker> lost_;             // in the order in which they were told
  std::uint64_t news_ = 0;
  std::map<std::uint64_t, std::shared_ptr<KeyValueStore>> stores_;  // of the newest generations
  std::optional<std::uint64_t> broken_;                             // the newest generation that is
};

}  // namespace rueda
