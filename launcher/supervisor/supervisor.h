// SPDX-License-Identifier: Apache-2.0
// Starts a job, sees it through, and leaves nothing of it behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "launcher/cli/options.h"
#include "launcher/job/placement.h"
#include "launcher/page/job_page.h"
#include "launcher/start/agent_starter.h"
#include "launcher/start/host_discovery.h"
#include "launcher/start/launch_method.h"
#include "launcher/supervisor/agent_server.h"
#include "launcher/supervisor/elastic_job.h"
#include "launcher/supervisor/input_forwarder.h"
#include "launcher/supervisor/job_end.h"
#include "launcher/supervisor/job_output.h"
#include "launcher/supervisor/job_record.h"
#include "launcher/supervisor/terminal_session.h"
#include "launcher/supervisor/value_exchange.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/signals.h"

namespace rueda {

// Purpose: one job, from the start of its agents to their end, which JobEnd decides. One loop waits for
// signals, agents, starters, input and time, and blocks in nothing. Owned by the main thread; lives as long
// as the job.
class Supervisor {
 public:
  // Throws UsageError where the page cannot be where the user wants it.
  // `inherited`: the signals at ruedarun's start, which ranks get; those of `signals` wait to be read.
  // `discovery`: of an elastic job on hosts that come and go.
  Supervisor(const LaunchOptions& options, const LaunchMethod& method, const Config& config,
             Descriptor signals, const SignalState& inherited, std::unique_ptr<HostDiscovery> discovery = {});

  // Returns ruedarun's exit status.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void start();
  void try_start();
  void start_agents(const std::vector<int>& hosts);
  int add_host(const std::string& name);
  bool is_over() const;
  void turn();
  int milliseconds_to_next_act() const;
  void read_signals();
  void on_signal(int signal);
  void forward_input();
  void watch_terminal();
  void leave_terminal();
  void on_key(int signal);
  void adapt_to_terminal();
  void pass_on(int signal);
  void stop_with_the_ranks();
  void reap();
  void starter_ended(const AgentStarter::EndedStarter& starter);
  void hear(const AgentServer::Heard& heard);
  void hear(int host, const agents::Message& message);
  void launch(int host, const agents::Ready& ready);
  void do_without_terminal(const std::string& why);
  void started(const agents::Started& started);
  void ended(const agents::Ended& ended);
  void do_without(int host, const std::string& why);
  std::string words_for(int rank) const;  // that has ended
  void fail(int rank);
  void agent_gone(int host);
  void cannot_start(int host, const std::string& why);
  bool does_without(int host) const { return elastic_ && elastic_->does_without(host); }
  void give_up_start();
  void fail_start(const std::string& why);
  void move_output();
  void act_on_time();
  void finish();
  void wait_for_reader(const std::function<bool()>& is_enough);

  struct Signals {
    Descriptor waiting;           // to be read from
    const SignalState inherited;  // at ruedarun's start
    std::set<int> passed_on{};    // hosts that come later are to get them, too
  };

  struct Start {
    const double timeout;                        // seconds
    const bool shows_info;                       // the user wants to know more
    const std::string folder;                    // the working directory of ranks
    const std::vector<std::string> environment;  // of ranks
    std::set<pid_t> others;  // children of ruedarun that are not of the job: `exec ruedarun` behind `| tee`
    std::optional<Clock::time_point> deadline{};
  };

  const LaunchOptions options_;
  std::vector<HostRanks> hosts_;
  AgentServer agents_;
  AgentStarter starter_;
  ValueExchange values_;
  JobRecord job_;
  TerminalSession terminal_;
  JobOutput output_;
  InputForwarder input_;
  Signals signals_;
  Start start_;
  JobEnd end_;
  std::optional<ElasticJob> elastic_;
  const std::unique_ptr<JobPage> page_;  // null: there is none
};

}  // namespace rueda
