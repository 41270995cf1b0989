// SPDX-License-Identifier: Apache-2.0
// Ranks, hosts and events of a job, as the page shows them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/observe/training/usual_pauses.h"
#include "launcher/protocol/observation.h"
#include "launcher/view/lateness.h"
#include "launcher/view/plan_view.h"
#include "launcher/view/step_times.h"
#include "launcher/view/what_if.h"

namespace rueda {

enum class RankState { starting, running, ended, lost };

// A span that had not ended when the page was told of it. It keeps that beginning, by which the page knows
// it.
struct OpenSpan {
  std::int64_t begin_ns = -1;  // on rank 0's clock
  std::int64_t shown_ns = 0;   // the same in time of the job
};

struct RankView {
  using Time = std::chrono::steady_clock::time_point;

  RankState state = RankState::starting;
  int host = 0;
  int process = 0;
  std::string words;                // of its end
  Time ended_at{};                  // once it has
  bool end_is_told = false;         // as an event
  bool is_heard = false;            // the agent has told of it
  double heard_at = 0;              // Unix seconds: the last time
  agents::Observed observed;        // the last one, without its history
  std::int64_t phase_since_ns = 0;  // on rank 0's clock
  std::int64_t stepped_ns = 0;      // on its own: its last step has ended; 0: none has
  Time failed_at{};                 // the time of its last failure
  std::uint64_t failed_step = 0;    // so many steps had ended then
  std::optional<Time> stalled_at;   // its words of a stall were heard; nothing: there are none
  bool stall_is_told = false;       // as an event
  OpenSpan told;
  UsualPauses pauses;
  RankPlans plans;
};

struct HostView {
  std::string name;
  agents::HostLoad load;  // the last one
  agents::HostLoad before;
  bool is_heard = false;
  double heard_at = 0;  // Unix seconds
};

struct JobEvent {
  double at = 0;  // Unix seconds
  std::string kind;
  int rank = -1;  // -1: of no rank
  std::string text;
};

// Of the last steps.
struct Analysis {
  Lateness lateness;
  std::vector<WhatIf> what_ifs;
};
// Moments stay on rank 0's clock.
Analysis analysis_of(const std::deque<CommonWait>& waits, WhatIfs& what_ifs);

// Hears when the rank has ended its last step, before `news` is taken as a whole.
void note_step(RankView& rank, const agents::Observed& news);
// `in_phase`: seconds in its phase until now. Infinite: it has ended none.
double seconds_since_step(const RankView& rank, double in_phase);
// An agent may not have told of its training yet.
bool may_train(const RankView& rank);
std::string name_of(RankState state);
std::size_t count(const std::map<int, RankView>& ranks, RankState state);
// None of them is starting or running.
bool all_over(const std::map<int, RankView>& ranks);

// The words of the failure that has been heard first, for some seconds while that rank ends no step; empty:
// there is none.
std::string present_failure(const std::map<int, RankView>& ranks, RankView::Time now);
// The words of the stall that has been heard first; empty: there is none. Where a step has ended after that,
// so many seconds ago, the others go on.
std::string oldest_stall(const std::map<int, RankView>& ranks, RankView::Time now, double since_step);
// The ranks that the others wait for in init(); empty: there are none, or no rank has called it.
// No `members`: all ranks are.
std::string late_for_init(const std::map<int, RankView>& ranks, const std::set<int>& members);
// The ranks in that state: "ranks 0, 2".
std::string named(const std::map<int, RankView>& ranks, RankState state);
// Tells how the first lost rank has ended. A failure, or the end of another rank, comes first if it was
// shortly before. Empty where no rank is lost.
std::string loss_in_words(const std::map<int, RankView>& ranks);

// Rounded to 10 microseconds: seconds of a time of the job.
double feed_seconds(std::int64_t job_ns);
nlohmann::json as_json(const ShownSpan& span);
nlohmann::json as_json(const JobEvent& event);
nlohmann::json as_json(int number, const RankView& rank);
// What stays the same, and what changes.
nlohmann::json facts_as_json(const HostView& host);
nlohmann::json load_as_json(const HostView& host);
nlohmann::json as_json(const Analysis& analysis);

}  // namespace rueda
