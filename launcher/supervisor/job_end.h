// SPDX-License-Identifier: Apache-2.0
// The end of a job, and its exit status.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/cli/options.h"
#include "launcher/start/agent_starter.h"
#include "launcher/supervisor/agent_server.h"
#include "launcher/supervisor/job_output.h"
#include "launcher/supervisor/job_record.h"
#include "launcher/supervisor/stop_after.h"
#include "launcher/supervisor/termination.h"

namespace rueda {

// Purpose: brings a job to its end when a rank has failed, when its start has, on a signal (Ending has the
// times), after a time that the user gave (StopAfter), or when all ranks have ended. It tells the agents, and
// the user why. Owned by the main thread of the supervisor.
class JobEnd {
 public:
  using Clock = std::chrono::steady_clock;

  JobEnd(const LaunchOptions& options, const JobRecord& job, AgentServer& agents, AgentStarter& starter,
         JobOutput& output);

  void on_start(Clock::time_point now) { stop_after_.on_start(now); }
  void end_by(int signal);  // one that ruedarun has got
  // Somebody who watches the job wants its ranks to save what they have, and to end.
  void ask_now() { stop_after_.ask_now(Clock::now()); }
  void fail(int rank);
  void fail_for(std::optional<int> rank);  // the same, without words; none: it is nobody's failure
  void fail_start(const std::string& why);
  // The work is done: processes that only wait are asked to end.
  void end_well() { ending_.on_terminate(Clock::now()); }
  void check_all_ended();
  // Agents have something to do: output of ranks that have ended leaves them.
  void still_ending();
  void check_output();

  // Due at next_time().
  void act(Clock::time_point now);
  std::optional<Clock::time_point> next_time() const;

  bool has_begun() const { return ending_.has_begun(); }
  bool start_has_failed() const { return start_failed_; }
  // By --stop-after or ask_now(), and by nothing else.
  bool is_only_asked() const { return stop_after_.asked_at() && !ending_.has_begun(); }
  bool agents_know() const { return told_.over; }
  bool is_forced() const { return forced_; }
  int signal() const { return signal_; }  // the first that asked for the end, or 0

  void say_the_end();
  int exit_status() const;

 private:
  struct Told {
    int failure_lines = 0;     // how many ranks have been named
    bool cause = false;        // one of them: it had told of no failed operation
    int failures = 0;          // and to the other ranks
    bool output_lost = false;  // to the user
    bool over = false;         // to the agents
  };

  void name_failed(int rank);
  void ask_to_stop();
  void give_up_asking();
  void give_up_agents();
  void force();

  const LaunchOptions& options_;
  const JobRecord& job_;
  AgentServer& agents_;
  AgentStarter& starter_;
  JobOutput& output_;
  Ending ending_;
  StopAfter stop_after_;
  std::optional<int> failure_;  // exit status of the first rank that failed, or of a start that did
  int signal_ = 0;
  Clock::time_point signal_at_{};
  std::optional<Clock::time_point> farewell_;  // of agents, which have nothing left to do
  Told told_;
  bool start_failed_ = false;
  bool forced_ = false;
};

}  // namespace rueda
