// SPDX-License-Identifier: Apache-2.0
// The page of a job: what the loop of ruedarun tells it, and who is shown it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/control/membership/generation.h"
#include "launcher/cli/options.h"
#include "launcher/dump/job_dumps.h"
#include "launcher/job/placement.h"
#include "launcher/page/event_feed.h"
#include "launcher/page/job_actions.h"
#include "launcher/page/page_server.h"
#include "launcher/protocol/agent_message.h"
#include "launcher/view/job_view.h"
#include "launcher/view/speed_history.h"

namespace rueda {

// Purpose: lets agents tell of their ranks while somebody watches, and gives the watchers what is new, five
// times a second. It passes their wishes on. Nothing is sent, and nothing is due, while nobody does and the
// user wants no report. Dumps have other occasions, too (JobDumps): for these there may be a page without a
// server. Owned by the main thread of the supervisor; lives as long as the job.
class JobPage {
 public:
  using Clock = std::chrono::steady_clock;
  struct Supervision {
    std::function<void(std::optional<int> host, const agents::Message&)> tell;  // no host: all of them
    std::function<void()> stop;  // asks the ranks to save and to end
    std::function<void(const std::string& line)> say;
    std::function<std::string(int rank)> words_for;  // "rank 2 (process 17 on node3) was killed by ..."
  };

  // Null where the user wants no page, no report and no dumps, or a page alone and no port is free. Throws
  // UsageError where the user has named a port that cannot be had.
  static std::unique_ptr<JobPage> of_job(const LaunchOptions& options, const std::vector<HostRanks>& hosts,
                                         Supervision supervision);
  ~JobPage();

  // After the first agents of this machine have been forked: it makes threads.
  void start();
  // For the user: where the page is. Empty where the user need not know.
  std::string line() const;

  void add_host(const std::string& name) { view_.add_host(name); }
  void note_ready(int host);  // its agent has come
  void note_started(int host, const agents::Started& started);
  void note_ended(int rank, bool is_lost, const std::string& words);
  void note_gone(int host) { dumps_.note_gone(host); }  // its agent
  void note_generation(const Generation& generation);
  // Observed, HostLoad, AnswerPart or Stalled of that host; other messages are none of its business.
  void hear(int host, const agents::Message& message);

  // Due at next_time(), and when descriptor() is readable: then somebody asks.
  void act(Clock::time_point now, bool is_asked);
  std::optional<Clock::time_point> next_time() const;
  int descriptor() const { return feed_.descriptor(); }
  // The job is over. Those who watch are told, within a moment.
  void finish(int exit_status);
  // Afterwards: the page as a file, where the user wants one. A line for the user; else empty.
  std::string write_report();

 private:
  JobPage(const LaunchOptions& options, const std::vector<HostRanks>& hosts, Supervision supervision);
  void serve(const LaunchOptions& options);
  DumpFacts facts_of_dump() const;
  void begin_watch(Clock::time_point now, bool is_for_report);
  void end_watch(Clock::time_point now);
  void publish(Clock::time_point now);
  void give_status(const EventFeed::Wanted& wanted, Clock::time_point now);
  bool has_fresh_data(Clock::time_point now) const;

  // Since somebody watches.
  struct Watch {
    Clock::time_point since{};
    Clock::time_point until{};     // nobody does any more: then it ends
    Clock::time_point answered{};  // the last status
    std::size_t heard = 0;         // loads of hosts
    bool is_for_report = false;    // nobody else does
    std::chrono::milliseconds interval() const;
  };
  // The page as a file.
  struct Report {
    std::string path;  // empty: none
    SpeedHistory speeds;
    Clock::time_point ended{};  // the job
  };

  const Supervision supervision_;
  const bool shows_line_;
  EventFeed feed_;
  JobView view_;
  JobDumps dumps_;
  JobActions actions_;
  std::unique_ptr<PageServer> on_port_;
  std::unique_ptr<PageServer> on_socket_;
  std::string socket_;      // its path; empty: none
  std::size_t agents_ = 0;  // that have come
  std::optional<std::uint64_t> generation_;
  std::optional<Watch> watch_;
  Report report_;
  std::optional<Clock::time_point> due_;
};

}  // namespace rueda
