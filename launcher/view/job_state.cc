// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/job_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "rueda/rank_set.h"

namespace rueda {
namespace {

using nlohmann::json;

constexpr auto kBeforeLoss = std::chrono::seconds(30);  // a failure or an end then may be its cause
constexpr auto kFailureIsNews = std::chrono::seconds(10);
constexpr double kStepIsNews = 0.5;  // seconds: a job that has ended one goes on

// A multiplication by 0.1 or 0.001 would leave digits at the end.
double rounded(double value, double parts) { return std::round(value * parts) / parts; }

double per_second(std::uint64_t now, std::uint64_t before, std::int64_t nanoseconds) {
  if (nanoseconds <= 0 || now < before) return 0;
  return std::round(static_cast<double>(now - before) * 1e9 / static_cast<double>(nanoseconds));
}

json gpu_as_json(const GpuLoad& gpu) {
  json entry{{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}, {"memory_used", gpu.memory_used}};
  if (gpu.busy_percent != GpuLoad::kUnknown) entry["busy"] = gpu.busy_percent / 100.0;
  if (gpu.celsius != GpuLoad::kUnknown) entry["celsius"] = gpu.celsius;
  return entry;
}

json late_as_json(const LateRank& late) {
  json entry{{"rank", late.rank},
             {"late_ms", rounded(late.late_ms, 1e3)},
             {"share", rounded(late.share, 1e3)},
             {"score_best", rounded(late.score_best, 1e3)},
             {"score_own", rounded(late.score_own, 1e3)},
             {"histogram", late.histogram}};
  if (!late.since_step) return entry;
  entry["since_step"] = *late.since_step;
  entry["since"] = feed_seconds(late.since_ns);
  entry["phase"] = name_of(late.phase);
  return entry;
}

}  // namespace

std::size_t count(const std::map<int, RankView>& ranks, RankState state) {
  return static_cast<std::size_t>(
      std::ranges::count_if(ranks, [&](const auto& each) { return each.second.state == state; }));
}

bool all_over(const std::map<int, RankView>& ranks) {
  return !ranks.empty() && count(ranks, RankState::ended) + count(ranks, RankState::lost) == ranks.size();
}

std::string present_failure(const std::map<int, RankView>& ranks, RankView::Time now) {
  const RankView* first = nullptr;
  for (const auto& [number, rank] : ranks)
    if (!rank.observed.failure.empty() && rank.observed.step == rank.failed_step &&
        now < rank.failed_at + kFailureIsNews && (first == nullptr || rank.failed_at < first->failed_at))
      first = &rank;
  return first == nullptr ? "" : first->observed.failure;
}

std::string oldest_stall(const std::map<int, RankView>& ranks, RankView::Time now, double since_step) {
  if (since_step < kStepIsNews) return "";
  const RankView* oldest = nullptr;
  for (const auto& [number, rank] : ranks)
    if (rank.state == RankState::running && rank.stalled_at &&
        std::chrono::duration<double>(now - *rank.stalled_at).count() < since_step + kStepIsNews &&
        (oldest == nullptr || *rank.stalled_at < *oldest->stalled_at))
      oldest = &rank;
  return oldest == nullptr ? "" : oldest->observed.stall;
}

std::string late_for_init(const std::map<int, RankView>& ranks, const std::set<int>& members) {
  RankSet late;
  int running = 0, called = 0;
  for (const auto& [number, rank] : ranks) {
    if (rank.state != RankState::running || !rank.is_heard) continue;
    if (!members.empty() && !members.contains(number)) continue;
    ++running;
    called += rank.observed.has_training;
    if (!rank.observed.has_training) late.add(number, number + 1);
  }
  if (called == 0 || called == running) return "";
  return fmt::format("{} of {} ranks have called init(), {} {} not", called, running, to_string(late),
                     running - called == 1 ? "has" : "have");
}

std::string named(const std::map<int, RankView>& ranks, RankState state) {
  RankSet set;
  for (const auto& [number, rank] : ranks)
    if (rank.state == state) set.add(number, number + 1);
  return to_string(set);
}

std::string loss_in_words(const std::map<int, RankView>& ranks) {
  const RankView *lost = nullptr, *failed = nullptr, *left = nullptr;
  for (const auto& [number, rank] : ranks)
    if (rank.state == RankState::lost && (lost == nullptr || rank.ended_at < lost->ended_at)) lost = &rank;
  if (lost == nullptr) return "";
  for (const auto& [number, rank] : ranks) {
    if (!rank.observed.failure.empty() && rank.failed_at > lost->ended_at - kBeforeLoss &&
        (failed == nullptr || rank.failed_at < failed->failed_at))
      failed = &rank;
    // A rank that waits for nobody has another cause.
    if (lost->observed.phase == Phase::wait && rank.state == RankState::ended && rank.end_is_told &&
        rank.ended_at < lost->ended_at && rank.ended_at > lost->ended_at - kBeforeLoss &&
        (left == nullptr || rank.ended_at < left->ended_at))
      left = &rank;
  }
  std::string cause = failed != nullptr ? failed->observed.failure : left != nullptr ? left->words : "";
  if (cause.ends_with('.')) cause.pop_back();
  return cause.empty() ? lost->words : fmt::format("{}; {}", cause, lost->words);
}

// The first span of a step begins with the end of the step before; a long one may not have ended yet.
void note_step(RankView& rank, const agents::Observed& news) {
  if (news.step == rank.observed.step) return;
  const auto first = std::ranges::find(news.spans, news.step, &agents::Observed::Span::step);
  rank.stepped_ns = news.step == 0 ? 0 : first == news.spans.end() ? news.phase_since_ns : first->begin_ns;
}

double seconds_since_step(const RankView& rank, double in_phase) {
  if (rank.stepped_ns == 0) return std::numeric_limits<double>::infinity();
  return in_phase + static_cast<double>(rank.observed.phase_since_ns - rank.stepped_ns) * 1e-9;
}

bool may_train(const RankView& rank) {
  const bool lives = rank.state == RankState::starting || rank.state == RankState::running;
  return lives && (rank.observed.has_training || !rank.is_heard);
}

std::string name_of(RankState state) {
  constexpr std::array<std::string_view, 4> kNames{"starting", "running", "ended", "lost"};
  return std::string(kNames[static_cast<std::size_t>(state)]);
}

Analysis analysis_of(const std::deque<CommonWait>& waits, WhatIfs& what_ifs) {
  Analysis analysis{.lateness = lateness_of(waits)};
  std::vector<LateSince> late;  // the latest first
  for (const LateRank& each : analysis.lateness.ranks)
    if (each.since_step) late.push_back({each.rank, *each.since_step});
  analysis.what_ifs = what_ifs.replay(waits, late);
  return analysis;
}

double feed_seconds(std::int64_t job_ns) { return std::round(static_cast<double>(job_ns) * 1e-4) / 1e5; }

json as_json(const ShownSpan& span) {
  return json::array({span.rank, span.moves ? "moves" : name_of(span.span.phase), span.span.step,
                      feed_seconds(span.span.begin_ns), feed_seconds(span.span.end_ns)});
}

json as_json(const JobEvent& event) {
  json entry{{"at", event.at}, {"kind", event.kind}, {"text", event.text}};
  if (event.rank >= 0) entry["rank"] = event.rank;
  return entry;
}

json as_json(int number, const RankView& rank) {
  return {{"rank", number},
          {"host", rank.host},
          {"process", rank.process},
          {"state", name_of(rank.state)},
          {"words", rank.words}};
}

json facts_as_json(const HostView& host) {
  json cards = json::array();
  for (const agents::HostLoad::Card& card : host.load.cards)
    cards.push_back({{"name", card.name}, {"limit_bytes_per_s", card.limit}});
  return {{"name", host.name},
          {"cores", host.load.cores},
          {"memory_bytes", host.load.memory_bytes},
          {"cards", std::move(cards)}};
}

json load_as_json(const HostView& host) {
  json cards = json::array();
  const std::int64_t took = host.load.now_ns - host.before.now_ns;
  for (const agents::HostLoad::Card& card : host.load.cards) {
    const auto before = std::ranges::find(host.before.cards, card.name, &agents::HostLoad::Card::name);
    if (before == host.before.cards.end()) continue;
    cards.push_back({{"name", card.name},
                     {"sent_per_s", per_second(card.sent_bytes, before->sent_bytes, took)},
                     {"received_per_s", per_second(card.received_bytes, before->received_bytes, took)}});
  }
  json gpus = json::array();
  for (const GpuLoad& gpu : host.load.gpus) gpus.push_back(gpu_as_json(gpu));
  return {{"name", host.name},
          {"busy", rounded(host.load.busy, 1e3)},
          {"memory_used", host.load.memory_used},
          {"load", host.load.load},
          {"cards", std::move(cards)},
          {"gpus", std::move(gpus)}};
}

json as_json(const Analysis& analysis) {
  json ranks = json::array(), what_ifs = json::array();
  for (const LateRank& late : analysis.lateness.ranks) ranks.push_back(late_as_json(late));
  constexpr double kLeastPercent = 0.5;  // less is nothing to act on
  for (const WhatIf& what_if : analysis.what_ifs)
    if (what_if.faster_percent >= kLeastPercent)
      what_ifs.push_back({{"rank", what_if.rank}, {"faster_percent", rounded(what_if.faster_percent, 10)}});
  return {{"steps", analysis.lateness.steps}, {"ranks", std::move(ranks)}, {"what_if", std::move(what_ifs)}};
}

}  // namespace rueda
