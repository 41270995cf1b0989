// SPDX-License-Identifier: Apache-2.0
// All that is known of a job, as the events of its page.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launcher/protocol/observation.h"
#include "launcher/view/feed_clock.h"
#include "launcher/view/job_state.h"
#include "launcher/view/progress.h"
#include "launcher/view/scalar_curves.h"
#include "launcher/view/step_times.h"

namespace rueda {

// Purpose: hears of ranks, hosts and their history, and tells of them in JSON: `job`, which seldom changes,
// and `update`, with what is new. Pure; time is passed in, but for the time that an analysis takes. Owned by
// the main thread of the supervisor.
class JobView {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Facts {
    std::string command;
    double started_at = 0;  // Unix seconds
    Time started{};         // the same
    bool elastic = false;
    double card_limit = 0;  // bytes per second of each card, where the user gives it; 0: unknown
  };

  explicit JobView(Facts facts) : facts_(std::move(facts)) {}

  void add_host(const std::string& name);
  void add_rank(int rank, int host);
  // A rank may be another than those of the start.
  void started(int rank, int host, int process);
  void ended(int rank, bool is_lost, const std::string& words, Time now);
  // Of an elastic job: `members` make it up from now on.
  void generation(std::uint64_t number, const std::set<int>& members, Time now);
  void job_ended(int exit_status, Time now);
  // -1: of no rank.
  void note_event(std::string kind, int rank, std::string text, Time now);

  void hear(int host, const agents::Observed& news, Time now);
  void hear(int host, const agents::HostLoad& load, Time now);

  nlohmann::json job() const;
  bool take_job_changed() { return std::exchange(news_.job, false); }
  // What is new since the last call; null where nothing is.
  nlohmann::json update(Time now);
  // The same with all that is known, as of the last update.
  nlohmann::json everything(Time now) const;
  // {"job", "update", "ranks"}: each rank's step and phase, too.
  nlohmann::json status(Time now) const;
  // For Prometheus.
  std::string metrics() const;

 private:
  struct News {
    bool job = true;
    bool analysis = false;
    bool plan = false;
    Time plan_at{};  // told
    std::set<int> hosts;
    std::vector<ShownSpan> spans;
    std::size_t events_told = 0;
    std::string line;                                     // as it was told
    Progress progress;                                    // the same
    nlohmann::json operations = nlohmann::json::array();  // the same
  };
  struct Membership {
    std::uint64_t generation = 1;
    std::set<int> members;  // empty: all
    int lost = 0, joined = 0;
    bool is_over = false;  // the job
  };
  struct Analysed {
    Analysis analysis;
    std::uint64_t waits = 0;  // so many were complete
    Time at{};
    Time::duration rest{};  // until the next one: most of the time is for the job
    WhatIfs what_ifs;
    Stragglers stragglers;
    bool stall_is_told = false;
    Time paused_at{};  // ranks have waited for one that evaluates or saves
  };

  std::int64_t job_ns(Time now) const;
  double unix_seconds(Time now) const;
  void hear_spans(int rank, const agents::Observed& news, Time now);
  int pace_rank() const;
  // "rank 2 (worker 5)": a worker of an elastic job keeps its number, and may have another rank. "worker 5"
  // has none at present, nor has "worker 6, a spare".
  std::string name_of_rank(int worker) const;
  // In the present generation; -1: none.
  int rank_of(int worker) const;
  // It counts its steps as all ranks of the present generation do.
  bool is_in_generation(int worker, const agents::Observed& news) const;
  nlohmann::json late_as_json() const;
  std::vector<const RankPlans*> plans() const;
  void expect_ranks();
  void analyse(Time now);
  void take_shown();
  void tell_stragglers(Time now);
  void look_for_stall(Time now);
  std::vector<PresentPhase> present_phases(Time now) const;
  void tell_early_ends(Time now, bool at_once);
  void hear_words(const agents::Observed& news, Time now);
  void measure(Time now);
  void settle_line(Time now);
  void settle_running(Time now);
  // Nothing if the rank does not run, or its agent has not been heard lately.
  std::optional<double> phase_seconds(const RankView& rank, Time now) const;
  nlohmann::json take_open_spans(Time now);
  nlohmann::json operations(Time now) const;
  nlohmann::json rank_status(int number, const RankView& rank, Time now) const;

  const Facts facts_;
  std::vector<HostView> hosts_;
  std::map<int, RankView> ranks_;
  Membership membership_;
  FeedClock clock_;
  StepTimes times_;
  Pace pace_;
  ScalarCurves curves_;
  std::deque<ShownSpan> spans_;  // of the last while
  std::deque<JobEvent> events_;  // the last ones
  Analysed analysed_;
  LineFacts line_;
  News news_;
};

}  // namespace rueda
