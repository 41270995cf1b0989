// SPDX-License-Identifier: Apache-2.0
// This process as a worker of an elastic job of ruedarun's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "core/base/system/robust_futex.h"
#include "core/control/membership/generation.h"
#include "core/engine/wait/event_count.h"
#include "ops/bootstrap/address/agent_line.h"
#include "rueda/rueda.h"

namespace rueda {

// Purpose: tells the generation of this process, and the next one. All messages go over the AgentLine. A
// thread of its own waits for news there, and holds the RobustFutex by which the agent learns of the end of
// this process. One for the process. Any thread may ask for news; only the thread that calls init() or
// shutdown() changes the object.
class ElasticWorker {
 public:
  // Null in a job that is not elastic.
  static ElasticWorker* of_this_process();

  ElasticWorker(Worker number, AgentLine& line);

  // Waits for a generation that has this worker, and that it has not tried yet. Throws LeftJob where this
  // process was to leave the job, NotInitialized where the job goes on without it otherwise.
  Generation next_generation();
  Rank rank_in(const Generation& generation) const { return generation.workers.index_of(number_); }
  // There is a newer one: this one never forms.
  bool is_superseded(std::uint64_t generation) const;
  // Rings when ruedarun has told something, as long as the doorbell lives.
  void ring_for_news(const std::shared_ptr<EventCount>& doorbell);
  // How many times ruedarun has told something.
  std::uint64_t news() const { return news_.load(); }
  // All of the generation that it has tried are there.
  void tell_formed();
  // This worker has the state of training, which others can get from it.
  void tell_state();
  // The change of membership since this worker's generation began.
  std::optional<MembershipChange> change() const;

 private:
  void listen();
  std::optional<Generation> tried() const;

  const Worker number_;
  AgentLine& line_;
  bool has_formed_ = false;  // some generation
  std::optional<SharedRobustFutex> futex_;
  std::atomic<std::uint64_t> news_{1};
  mutable std::mutex mutex_;
  std::optional<Generation> tried_;     // the last one; guarded by the mutex
  std::weak_ptr<EventCount> doorbell_;  // of the Runtime that there is; guarded by the mutex
};

}  // namespace rueda
