// SPDX-License-Identifier: Apache-2.0
// A job that goes on when it loses ranks, and takes others in.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/control/membership/membership.h"
#include "launcher/cli/options.h"
#include "launcher/job/placement.h"
#include "launcher/start/host_discovery.h"
#include "launcher/supervisor/agent_server.h"
#include "launcher/supervisor/host_pool.h"
#include "launcher/supervisor/job_end.h"
#include "launcher/supervisor/job_output.h"
#include "launcher/supervisor/job_record.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: from the ends of workers and the news of hosts to the next generation (Membership has the rules),
// which all workers are told, and to processes in free slots (HostPool). In words it calls a worker by the
// rank that it had last. Owned by the main thread of the supervisor.
class ElasticJob {
 public:
  using Clock = std::chrono::steady_clock;

  // The hosts as they are at the start.
  struct Hosts {
    const std::vector<HostRanks>& placed;      // with the ranks of the start
    const std::vector<HostSlots>& listed;      // as the user names them; empty: this machine
    std::unique_ptr<HostDiscovery> discovery;  // null: they stay as they are
    // Starts the agent of a host more, and returns the number of the host. Throws std::system_error.
    std::function<int(const std::string& host)> start_agent;
    std::chrono::duration<double> start_timeout{};  // how long an agent may take to come
  };

  // All but `options` and `hosts` outlive this.
  ElasticJob(const LaunchOptions& options, Hosts hosts, JobRecord& job, AgentServer& agents,
             JobOutput& output, JobEnd& end);

  // Whether the agent that has come has something to do.
  bool needs(int host) const { return !hosts_.is_closed(host); }
  int slots_of(int host) const { return hosts_.slots_of(host); }
  const Generation& generation() const { return membership_.generation(); }
  bool stays_on_one_host() const { return !discovery_ && hosts_.has_one_host(); }
  // An agent has got its order to start ranks.
  void welcome(int host);
  void hear(const agents::WorkerState& state);
  // The job has it on record already. `failed`: it has not ended well.
  void ended(Worker worker, bool failed);
  // How a worker has ended, by the name that it had last.
  std::string end_in_words(Worker worker) const;
  // No worker can be started there: its agent has not come, or says so. Those that were to be.
  std::vector<Worker> cannot_start(int host, const std::string& why);
  // Whether a host that does not start is no failure of the job.
  bool does_without(int host) const;
  // Its workers are to leave the job, without a loss.
  void host_leaves(int host, const std::string& why);
  void host_gone(int host);

  // Acts on all events so far. Also due at next_time(), and when descriptor() is readable.
  void act(Clock::time_point now);
  std::optional<Clock::time_point> next_time() const;
  int descriptor() const { return discovery_ && !is_frozen() ? discovery_->descriptor() : -1; }
  // Knows a child of ruedarun that has ended.
  bool note_end(pid_t process, int status) { return discovery_ && discovery_->note_end(process, status); }

 private:
  // For the user, and for workers.
  struct News {
    RankSet known;                  // workers that have been in a generation
    std::vector<std::string> lost;  // just now, in words
    std::vector<std::string> over;  // workers that have ended well while the others go on
    // Just now, in words: slots and hosts that are on the blacklist, and workers that end for it.
    std::vector<std::string> blacklist;
    Membership::Due due;  // as workers have been told
    std::string discovery_failure;
  };

  // Workers that were started later, so that those of one time come in together.
  struct Coming {
    RankSet workers;                           // that have not said yet that they are there
    std::optional<Clock::time_point> awaited;  // by those that are: until then
    // Spares are started then. They take no processor from ranks that form a generation.
    std::optional<Clock::time_point> spares;
  };

  bool is_frozen() const;
  bool nobody_can_come() const;
  void give_up();
  void lose(Worker worker);
  void free_slot_of(Worker worker);
  void note_banned(const std::optional<HostPool::Banned>& banned, std::string_view why);
  void retire(const std::vector<Worker>& workers);
  void end_silent(Worker worker);
  void end_those_that_stay(Clock::time_point now);
  void tell_generation(const Generation& next, const RankSet& before, Clock::time_point now);
  void tell_what_is_due(Clock::time_point now);
  bool waits_for_more(Clock::time_point now);
  void say_what_has_changed(const std::optional<Generation>& next, const RankSet& left);
  void look_for_hosts(Clock::time_point now);
  void use_hosts(const std::vector<HostSlots>& hosts);
  void see_to_hosts(Clock::time_point now);
  bool wants_workers() const;
  int workers_wanted() const;
  void start_agents(Clock::time_point now);
  void start_workers(Clock::time_point now);

  const LaunchOptions& options_;
  JobRecord& job_;
  AgentServer& agents_;
  JobOutput& output_;
  JobEnd& end_;
  Membership membership_;
  HostPool hosts_;
  std::unique_ptr<HostDiscovery> discovery_;
  const std::function<int(const std::string& host)> start_agent_;
  const Clock::duration start_timeout_;
  News news_;
  Coming coming_;
  std::optional<Worker> cause_;                  // the first that was lost since a generation had formed
  std::map<Worker, Clock::time_point> leaving_;  // workers that are in no generation any more: ended then
};

}  // namespace rueda
