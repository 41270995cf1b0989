// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/job_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "launcher/view/slow_cards.h"

namespace rueda {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::uint64_t kForgotten = 100;    // steps: a moment before is soon in no step that is kept
constexpr std::size_t kMostSpans = 20'000;   // that are kept for those who come later
constexpr std::size_t kMostNewSpans = 8000;  // in one update
constexpr std::size_t kMostEvents = 500;
constexpr int kRest = 20;                                  // times as long as the analysis before
constexpr auto kAfterPause = 2s;                           // the words of a wait for it may last so long
constexpr double kLongestRest = 366 * 86'400.0;            // seconds: what is farther is no forecast
constexpr std::int64_t kFarthest = std::int64_t{1} << 61;  // of times that may be added

bool is_sane(const agents::Observed::Span& span) {
  return span.begin_ns > -kFarthest && span.end_ns < kFarthest && span.begin_ns <= span.end_ns;
}

}  // namespace

std::int64_t JobView::job_ns(Time now) const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now - facts_.started).count();
}

double JobView::unix_seconds(Time now) const {
  return facts_.started_at + std::chrono::duration<double>(now - facts_.started).count();
}

void JobView::note_event(std::string kind, int rank, std::string text, Time now) {
  events_.push_back({unix_seconds(now), std::move(kind), rank_of(rank), std::move(text)});
  if (events_.size() <= kMostEvents) return;
  events_.pop_front();
  news_.events_told -= std::min<std::size_t>(1, news_.events_told);
}

void JobView::job_ended(int exit_status, Time now) {
  settle_line(now);
  membership_.is_over = true;
  line_.progress.ends_at = 0;
  line_.pause_s = 0;
  line_.culprit = {};
  note_event("end", -1, fmt::format("the job has ended with status {}", exit_status), now);
  if (line_.state == LineState::lost) return;  // its words say more
  line_.state = LineState::ended;
  line_.words = fmt::format("status {}", exit_status);
}

void JobView::hear(int host, const agents::Observed& news, Time now) {
  const auto found = ranks_.find(news.rank);
  if (found == ranks_.end() || found->second.host != host) return;
  RankView& rank = found->second;
  const auto is_far = [](std::int64_t time) { return time <= -kFarthest || time >= kFarthest; };
  if (is_far(news.now_ns) || is_far(news.clock_offset_ns) || is_far(news.phase_since_ns) ||
      is_far(news.failed_at_ns))
    return;
  clock_.note(host, news.now_ns, job_ns(now));
  const bool changed = !rank.is_heard || rank.observed.has_training != news.has_training;
  rank.is_heard = true;
  rank.heard_at = unix_seconds(now);
  rank.observed.has_training = news.has_training;
  if (changed) expect_ranks();
  hear_spans(news.rank, news, now);
  if (const int number = rank_of(news.rank); number >= 0)
    for (const agents::Observed::Curve& curve : news.curves) curves_.add(number, curve, now);
  if (news.has_training) rank.plans.hear(news);
  news_.plan = news_.plan || !news.routes.empty();
  hear_words(news, now);
  note_step(rank, news);
  rank.observed = news;
  rank.observed.spans.clear();
  rank.observed.curves.clear();
  rank.observed.routes.clear();
  rank.phase_since_ns = clock_.common_time(host, news.phase_since_ns, news.clock_offset_ns);
}

// Words of a failure are the same on all ranks, and are told once. A stall without words is over. Rank 0 of
// each process set has its own.
void JobView::hear_words(const agents::Observed& news, Time now) {
  const Time failed_at =
      now - std::chrono::nanoseconds(std::max<std::int64_t>(0, news.now_ns - news.failed_at_ns));
  const auto told = [&](const auto& each) { return each.second.observed.failure == news.failure; };
  if (!news.failure.empty() && std::ranges::none_of(ranks_, told))
    note_event("error", news.rank, news.failure, failed_at);
  RankView& rank = ranks_.at(news.rank);
  if (news.failure != rank.observed.failure || news.failed_at_ns != rank.observed.failed_at_ns) {
    rank.failed_at = failed_at;
    rank.failed_step = news.step;
  }
  if (news.stall == rank.observed.stall) return;
  rank.stalled_at = news.stall.empty() ? std::nullopt : std::optional(now);
  rank.stall_is_told = false;
}

void JobView::hear_spans(int rank, const agents::Observed& news, Time now) {
  const int host = ranks_.at(rank).host;
  const bool sets_pace = rank == pace_rank();
  const bool is_present = is_in_generation(rank, news);
  for (const agents::Observed::Span& span : news.spans) {
    if (!is_sane(span)) continue;
    ranks_.at(rank).pauses.add(span.phase, static_cast<double>(span.end_ns - span.begin_ns) * 1e-9);
    const RankSpan own{span.phase, span.step, clock_.common_time(host, span.begin_ns, news.clock_offset_ns),
                       clock_.common_time(host, span.end_ns, news.clock_offset_ns)};
    if (!is_present || span.begin_ns < news.generation_since_ns) {
      times_.show_alone(rank, own);
      continue;
    }
    if (sets_pace) pace_.add(rank, span.step, span.begin_ns);
    times_.add(rank, own, now);
  }
}

void JobView::hear(int host, const agents::HostLoad& load, Time now) {
  if (host < 0 || static_cast<std::size_t>(host) >= hosts_.size()) return;
  HostView& about = hosts_[static_cast<std::size_t>(host)];
  const auto cards = [](const agents::HostLoad& of) {
    std::vector<std::string> names;
    for (const agents::HostLoad::Card& card : of.cards) names.push_back(card.name);
    return names;
  };
  if (!about.is_heard || about.load.cores != load.cores || about.load.memory_bytes != load.memory_bytes ||
      cards(about.load) != cards(load))
    news_.job = true;
  clock_.note(host, std::clamp(load.now_ns, -kFarthest, kFarthest), job_ns(now));
  about.before = std::exchange(about.load, load);
  if (!about.is_heard) about.before = load;
  about.is_heard = true;
  about.heard_at = unix_seconds(now);
  if (facts_.card_limit > 0)
    for (agents::HostLoad::Card& card : about.load.cards) card.limit = facts_.card_limit;
  news_.hosts.insert(host);
  const std::string news = line_.slow_cards.look(slow_cards(hosts_, unix_seconds(now)), unix_seconds(now));
  if (!news.empty()) note_event("slow card", -1, news, now);
}

// The first rank that tells its steps; it has the speed of all.
int JobView::pace_rank() const {
  const auto found = std::ranges::find_if(
      ranks_, [&](const auto& each) { return may_train(each.second) && rank_of(each.first) >= 0; });
  return found == ranks_.end() ? -1 : found->first;
}

// In time of the job from here on.
void JobView::take_shown() {
  for (ShownSpan span : times_.take_shown()) {
    const OpenSpan& told = ranks_[span.rank].told;
    span.span.begin_ns =
        told.begin_ns == span.span.begin_ns ? told.shown_ns : clock_.job_time(span.span.begin_ns);
    span.span.end_ns = std::max(span.span.begin_ns, clock_.job_time(span.span.end_ns));
    span.rank = rank_of(span.rank);
    if (span.rank < 0) continue;
    news_.spans.push_back(span);
    spans_.push_back(span);
    if (spans_.size() > kMostSpans) spans_.pop_front();
  }
  if (news_.spans.size() > kMostNewSpans)
    news_.spans.erase(news_.spans.begin(), news_.spans.end() - kMostNewSpans);
}

void JobView::analyse(Time now) {
  times_.act(now);
  take_shown();
  if (times_.completed() == analysed_.waits || now < analysed_.at + analysed_.rest) return;
  const Time began = std::chrono::steady_clock::now();
  analysed_.waits = times_.completed();
  analysed_.at = now;
  analysed_.analysis = analysis_of(times_.waits(), analysed_.what_ifs);
  analysed_.rest = std::max<Time::duration>(500ms, kRest * (std::chrono::steady_clock::now() - began));
  for (LateRank& late : analysed_.analysis.lateness.ranks) late.since_ns = clock_.job_time(late.since_ns);
  if (!times_.waits().empty())
    analysed_.stragglers.keep_moments(analysed_.analysis.lateness, times_.waits().front().step + kForgotten);
  news_.analysis = true;
  tell_stragglers(now);
}

// A slow card makes ranks late that have no fault.
void JobView::tell_stragglers(Time now) {
  if (line_.slow_cards.any_suspect()) return;
  for (const auto& [late, is_change] : analysed_.stragglers.hear(analysed_.analysis.lateness)) {
    if (rank_of(late.rank) < 0) continue;
    const std::string& host = hosts_.at(static_cast<std::size_t>(ranks_.at(late.rank).host)).name;
    const std::string who = fmt::format("{} on {}", name_of_rank(late.rank), host);
    note_event("straggler", late.rank,
               is_change ? fmt::format("{} is late by {:.1f} ms a step now, in {}", who, late.late_ms,
                                       name_of(late.phase))
                         : fmt::format("{} is late since step {}: {:.1f} ms a step, in {}", who,
                                       with_commas(*late.since_step), late.late_ms, name_of(late.phase)),
               now);
  }
}

// As they were when their hosts spoke last.
std::vector<PresentPhase> JobView::present_phases(Time now) const {
  std::vector<PresentPhase> list;
  for (const auto& [number, rank] : ranks_)
    if (const std::optional<double> seconds = phase_seconds(rank, now); seconds && rank_of(number) >= 0)
      list.push_back({number, rank.observed.phase, rank.observed.step, *seconds, rank.pauses,
                      seconds_since_step(rank, *seconds)});
  return list;
}

// By the phases of the ranks, or by the words of one that has asked all of them. While all that are waited
// for evaluate or save, neither is a stall; and words of it may come a moment late.
void JobView::look_for_stall(Time now) {
  const std::vector<PresentPhase> phases = present_phases(now);
  std::optional<Standstill> still = standstill_of(phases, line_.progress.step_ms, !facts_.elastic);
  const std::chrono::duration<double> since_pause = now - analysed_.paused_at;
  if (still && still->is_pause && !still->is_stall) analysed_.paused_at = now;
  if (still && !still->is_pause && since_pause.count() < stalled_wait(line_.progress.step_ms))
    still->is_stall = false;
  const bool may_tell = now > analysed_.paused_at + kAfterPause;
  line_.stall = may_tell ? oldest_stall(ranks_, now, since_last_step(phases)) : "";
  for (auto& [number, rank] : ranks_) {
    if (!may_tell || !rank.stalled_at || std::exchange(rank.stall_is_told, true)) continue;
    note_event("stall", -1, rank.observed.stall, now);
    analysed_.stall_is_told = true;  // the same, as the phases would tell it later
  }
  if (!still && line_.stall.empty()) {
    analysed_.stall_is_told = false;
    return;
  }
  line_.culprit = {};
  line_.words.clear();
  line_.state = LineState::stalled;
  if (still) {
    const bool is_stall = still->is_stall || !line_.stall.empty();
    line_.state = is_stall ? LineState::stalled : LineState::waiting;
    line_.still_s = still->seconds;
    if (still->is_pause && !is_stall) line_.pause_s = still->culprit->seconds;
    if (still->culprit)
      line_.culprit = {still->culprit->rank, std::string(name_of(still->culprit->phase)),
                       name_of_rank(still->culprit->rank)};
  }
  if (!still || !still->is_stall || std::exchange(analysed_.stall_is_told, true)) return;
  note_event("stall", line_.culprit.rank, in_words(line_), now);
}

// Steps, speed and the end that follow from them. While a generation begins, its ranks may not have told
// anything yet: then the steps stay as they were. Once ranks have ended, the speed is that of all of them
// before, unless the others go on.
void JobView::measure(Time now) {
  std::optional<Progress> heard;
  double samples = 0;
  std::vector<const agents::Observed*> training;
  for (const auto& [number, rank] : ranks_) {
    const agents::Observed& news = rank.observed;
    const bool counts = rank.state == RankState::running || all_over(ranks_);
    if (news.has_training && counts && is_in_generation(number, news) &&
        (news.step != 0 || news.total_steps != 0 || news.phase != Phase::other))
      training.push_back(&news);
  }
  std::uint64_t latest = 0;
  for (const agents::Observed* each : training) latest = std::max(latest, each->step);
  for (const agents::Observed* each : training) {
    const agents::Observed& news = *each;
    // It has joined, or has another role: ranks that wait for each other are a step apart at most.
    if (news.phase == Phase::wait && news.step + 1 < latest) continue;
    if (!heard) heard = {.step = news.step};
    heard->step = std::min(heard->step, news.step);
    heard->total = std::max(heard->total, news.total_steps);
    samples += static_cast<double>(news.samples_per_step);
  }
  const bool is_known = heard.has_value() && !pace_.is_held();
  if (!heard && line_.has_steps) heard = {.step = line_.progress.step, .total = line_.progress.total};
  line_.has_steps = heard.has_value();
  Progress progress = heard.value_or(Progress{});
  progress.step_ms = pace_.step_ms();
  const Lateness& lateness = analysed_.analysis.lateness;
  const LateRank* late = line_.slow_cards.any_suspect()
                             ? nullptr
                             : reason_to_wait(lateness, [this](int rank) { return rank_of(rank) >= 0; });
  const double same_steps_ms = late != nullptr ? late->step_ms : pace_.is_held() ? 0 : lateness.step_ms;
  if (same_steps_ms > 0) progress.step_ms = same_steps_ms;  // as the waits that are told with it
  if (!is_known && progress.step_ms > 0) progress.samples_per_s = line_.progress.samples_per_s;
  if (is_known && progress.step_ms > 0) progress.samples_per_s = samples * 1e3 / progress.step_ms;
  if (progress.step_ms > 0 && progress.total > progress.step && !all_over(ranks_) && !membership_.is_over) {
    const double rest = static_cast<double>(progress.total - progress.step) * progress.step_ms * 1e-3;
    if (rest <= kLongestRest) progress.ends_at = std::round(unix_seconds(now) + rest);
  }
  progress.wait_ms = late != nullptr ? late->wait_ms : lateness.wait_ms;
  line_.progress = progress;
}

void JobView::settle_line(Time now) {
  line_.now_at = unix_seconds(now);
  measure(now);
  if (membership_.is_over) return;
  tell_early_ends(now, false);
  line_.culprit = {};
  line_.pause_s = 0;
  line_.words.clear();
  const bool has_lost = count(ranks_, RankState::lost) > 0;
  if (has_lost && !facts_.elastic) {
    line_.state = LineState::lost;
    line_.words = loss_in_words(ranks_);
  } else if (const std::size_t starting = count(ranks_, RankState::starting); starting > 0 && !has_lost) {
    line_.state = LineState::starting;
    line_.words = fmt::format("{} of {} ranks run", ranks_.size() - starting, ranks_.size());
  } else {
    settle_running(now);
  }
  if (line_.state != LineState::running) line_.progress.ends_at = 0;
}

void JobView::settle_running(Time now) {
  line_.state = LineState::running;
  if (std::string failure = present_failure(ranks_, now); !failure.empty()) {
    line_.state = LineState::failed;
    line_.words = std::move(failure);
    return;
  }
  if (!line_.has_steps) {
    const std::size_t running = count(ranks_, RankState::running);
    line_.words = fmt::format("{} rank{} without steps so far", running, running == 1 ? "" : "s");
    if (std::string late = late_for_init(ranks_, membership_.members); !late.empty()) {
      line_.state = LineState::starting;
      line_.words = std::move(late);
      return;
    }
  }
  if (const LateRank* late =
          reason_to_wait(analysed_.analysis.lateness, [this](int rank) { return rank_of(rank) >= 0; }))
    line_.culprit = {late->rank, std::string(name_of(late->phase)), name_of_rank(late->rank), late->late_ms};
  look_for_stall(now);
}

}  // namespace rueda
