// SPDX-License-Identifier: Apache-2.0
// Starts a job, sees it through, and leaves nothing of it behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "launcher/cli/options.h"
#include "launcher/job/launch_method.h"
#include "launcher/job/mpich_cleanup.h"
#include "launcher/supervisor/agent_server.h"
#include "launcher/supervisor/job_output.h"
#include "launcher/supervisor/job_record.h"
#include "launcher/supervisor/stop_after.h"
#include "launcher/supervisor/termination.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/signals.h"

namespace rueda {

// Purpose: one job, from the start of mpiexec to the removal of its remains. One loop waits for signals,
// output, agents and time; it blocks in nothing but writing output. How ranks end is known from their agents
// alone. A job ends early when a rank has failed, when mpiexec has, on Ctrl-C and SIGTERM (Ending has the
// times), and after a time that the user gave (StopAfter). Owner: the main thread; lives as long as the job.
class Supervisor {
 public:
  // `inherited`: the signals at ruedarun's start, which ranks get; those of `signals` wait to be read.
  Supervisor(const LaunchOptions& options, std::string mpiexec, LaunchMethod way, double start_timeout,
             Descriptor signals, const SignalState& inherited);

  // Returns ruedarun's exit status.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void start();
  bool is_over() const { return mpiexec_.status && (job_.none_runs() || end_.forced); }
  void turn();
  void read_signals();
  void on_signal(int signal);
  void end_by(int signal);
  void check_output();
  void pass_on(int signal);
  void stop_with_the_ranks();
  void reap();
  void mpiexec_ended(int status);
  void hear_agents();
  void hear(const AgentServer::Heard& heard);
  void fail(int rank);
  void start_is_over();
  void watch_start(Clock::time_point now);
  void fail_start(const std::string& why);
  void check_all_ended();
  void act_on_time();
  void ask_to_stop();
  void give_up_asking();
  void force();
  void finish();
  int exit_status() const;
  int milliseconds_to_next_act() const;

  struct Signals {
    Descriptor waiting;           // to be read from
    const SignalState inherited;  // at ruedarun's start
    std::set<int> passed_on{};    // those that ranks which start later are to get, too
  };

  struct Mpiexec {
    const std::string path;
    pid_t process = 0;
    std::optional<int> status{};
    bool lost = false;  // it ended while ranks ran
  };

  struct Start {
    const double timeout;  // seconds
    Clock::time_point began_at{};
    std::optional<Clock::time_point> deadline{};
    std::optional<Clock::time_point> next_look{};  // at the resource manager's program, until all ranks run
    bool starter_seen = false;                     // that program
    bool incomplete =
        false;  // some ranks had not started when the first one was killed: Hydra cannot start them any more
  };

  struct End {
    std::optional<int> failure{};  // exit status of the first rank that failed, or of a start that did
    int signal = 0;                // the first that asked for the end, or 0
    int failure_lines = 0;         // how many ranks have been named
    bool output_lost = false;      // told
    bool said_over = false;
    bool forced = false;
  };

  const LaunchOptions options_;
  const LaunchMethod way_;
  const Token token_;
  MpichCleanup litter_;
  AgentServer hub_;
  JobRecord job_;
  Ending ending_;
  StopAfter stop_after_;
  JobOutput output_;
  Signals signals_;
  Mpiexec mpiexec_;
  Start start_;
  End end_;
};

}  // namespace rueda
