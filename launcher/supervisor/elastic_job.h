// SPDX-License-Identifier: Apache-2.0
// A job that goes on when it loses ranks, and takes others in.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/control/membership/membership.h"
#include "launcher/cli/options.h"
#include "launcher/job/placement.h"
#include "launcher/supervisor/agent_server.h"
#include "launcher/supervisor/job_end.h"
#include "launcher/supervisor/job_output.h"
#include "launcher/supervisor/job_record.h"
#include "launcher/supervisor/worker_slots.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: from the ends of workers to the next generation (Membership has the rules), which all workers are
// told, and to processes in place of those that are lost. In words it calls a worker by the rank that it had
// last. Owned by the main thread of the supervisor.
class ElasticJob {
 public:
  using Clock = std::chrono::steady_clock;

  // `hosts`: with the ranks of the start; `slots`: the same with a place for each worker that may run at a
  // time. All but `options` and `slots` outlive this.
  ElasticJob(const LaunchOptions& options, const std::vector<HostRanks>& hosts,
             const std::vector<HostRanks>& slots, JobRecord& job, AgentServer& agents, JobOutput& output,
             JobEnd& end);

  // An agent has got its order to start ranks.
  void welcome(int host);
  void hear(const agents::WorkerState& state);
  // The job has it on record already. `failed`: it has not ended well.
  void ended(Worker worker, bool failed);
  // A worker that was ordered later could not be started there.
  void cannot_start(int host, const std::string& why);
  void host_gone(int host) { slots_.lose_host(host); }

  // What follows from all that has come. Also due at next_time().
  void act(Clock::time_point now);
  std::optional<Clock::time_point> next_time() const { return membership_.due(); }

 private:
  bool is_frozen() const;
  bool nobody_can_come();
  void give_up();
  void end_silent(Worker worker);
  void say_what_has_changed(const std::optional<Generation>& next);
  void start_workers();

  const int processes_;  // to have at a time
  const std::vector<HostRanks>& hosts_;
  JobRecord& job_;
  AgentServer& agents_;
  JobOutput& output_;
  JobEnd& end_;
  Membership membership_;
  WorkerSlots slots_;
  RankSet known_;                  // workers that have been in a generation
  std::vector<std::string> lost_;  // just now, in words
  std::optional<Worker> cause_;    // the first that was lost since a generation had formed
  bool told_of_joiners_ = false;
};

}  // namespace rueda
