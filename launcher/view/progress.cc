// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/progress.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

namespace rueda {
namespace {

constexpr std::size_t kSteps = 100;
constexpr double kNotable = 0.01;  // of a step: waits below are not told
// Seconds, and steps of short ones. Of long steps a part is enough.
constexpr double kMissed = 0.5, kMissedSteps = 3, kMissedPart = 0.5, kMissedBehind = 10;
constexpr double kStall = 5, kStallSteps = 10, kStallBehind = 60;
constexpr double kMissedBeforeSteps = 2, kStallBeforeSteps = 30;
constexpr std::size_t kHeldSteps = 10;
constexpr double kDay = 86'400;
constexpr double kFarthest = 250e9;  // seconds: years of four digits

// The rank that has been longest in a pause.
std::optional<PresentPhase> pausing_rank(std::span<const PresentPhase> ranks) {
  std::optional<PresentPhase> longest;
  for (const PresentPhase& rank : ranks)
    if (is_pause(rank.phase) && (!longest || rank.seconds > longest->seconds)) longest = rank;
  return longest;
}

// Some rank is long in a phase that is neither a wait nor a pause.
bool has_other_culprit(std::span<const PresentPhase> ranks, double step_ms) {
  return std::ranges::any_of(ranks, [&](const PresentPhase& rank) {
    return rank.phase != Phase::wait && !is_pause(rank.phase) && rank.seconds >= notable_wait(step_ms);
  });
}

// The one that has been longest in its phase. Where all wait, one that waits in an earlier step has stopped.
std::optional<PresentPhase> culprit_of(std::span<const PresentPhase> ranks, bool counts_alike) {
  std::optional<PresentPhase> culprit;
  std::uint64_t latest = 0;
  for (const PresentPhase& rank : ranks) {
    latest = std::max(latest, rank.step);
    if (rank.phase != Phase::wait && !is_pause(rank.phase) && (!culprit || rank.seconds > culprit->seconds))
      culprit = rank;
  }
  if (culprit || !counts_alike) return culprit;
  const auto behind = std::ranges::min_element(ranks, {}, &PresentPhase::step);
  return behind->step < latest ? std::optional(*behind) : std::nullopt;
}

std::tm local_time(double at) {
  const auto seconds = static_cast<std::time_t>(std::clamp(at, -kFarthest, kFarthest));
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return local;
}

std::string time_in_words(double at, double now) {
  const std::tm local = local_time(at);
  if (at - now < kDay) return fmt::format("at {:%H:%M}", local);
  return local.tm_year == local_time(now).tm_year ? fmt::format("on {:%d %b at %H:%M}", local)
                                                  : fmt::format("on {:%d %b %Y at %H:%M}", local);
}

std::string name_of(const Culprit& culprit) {
  return culprit.name.empty() ? fmt::format("rank {}", culprit.rank) : culprit.name;
}

std::string progress_in_words(const Progress& progress, double now) {
  std::string text = fmt::format(", step {}", with_commas(progress.step));
  if (progress.total > 0) text += fmt::format(" of {}", with_commas(progress.total));
  if (progress.samples_per_s > 0)
    text += fmt::format(", {:.{}f} samples/s", progress.samples_per_s, progress.samples_per_s < 100 ? 1 : 0);
  else if (progress.step_ms > 0)
    text += fmt::format(", {:.1f} ms a step", progress.step_ms);
  if (progress.ends_at > 0) text += fmt::format(", ends {}", time_in_words(progress.ends_at, now));
  return text;
}

std::string standstill_in_words(const LineFacts& facts) {
  if (facts.pause_s > 0)
    return fmt::format("; the others wait for {} ({}, {:.1f} s)", name_of(facts.culprit), facts.culprit.phase,
                       facts.pause_s);
  if (!facts.stall.empty() && facts.culprit.rank < 0) return "; " + facts.stall;
  const std::string text =
      fmt::format("; no step for {:.{}f} s", facts.still_s, facts.state == LineState::waiting ? 1 : 0);
  if (facts.culprit.rank < 0) return text + ", all ranks wait for results";
  return fmt::format("{}, the others wait for {} ({})", text, name_of(facts.culprit), facts.culprit.phase);
}

std::string lateness_in_words(const LineFacts& facts) {
  const double limit = kNotable * facts.progress.step_ms;
  if (facts.culprit.rank >= 0 && facts.culprit.late_ms > limit)
    return fmt::format("; {:.1f} ms a step waiting for {} ({})", facts.culprit.late_ms,
                       name_of(facts.culprit), facts.culprit.phase);
  if (facts.progress.wait_ms <= limit || facts.progress.wait_ms <= 0) return "";
  return fmt::format("; {:.1f} ms a step waiting for others", facts.progress.wait_ms);
}

}  // namespace

void Pace::add(int rank, std::uint64_t step, std::int64_t begin_ns) {
  if (rank != rank_ || (!begins_.empty() && step < begins_.back().step)) begins_.clear();
  rank_ = rank;
  if (!begins_.empty() && begins_.back().step == step) return;
  begins_.push_back({step, begin_ns});
  if (begins_.size() > kSteps + 1) begins_.pop_front();
  if (begins_.size() > kHeldSteps) held_ms_.reset();
}

void Pace::hold(double step_ms) {
  held_ms_ = step_ms;
  begins_.clear();
}

double Pace::step_ms() const {
  if (held_ms_) return *held_ms_;
  if (begins_.size() < 2) return 0;
  const Begin &first = begins_.front(), &last = begins_.back();
  return static_cast<double>(last.at_ns - first.at_ns) * 1e-6 / static_cast<double>(last.step - first.step);
}

double notable_wait(double step_ms) {
  const double step = step_ms * 1e-3;
  if (step <= 0) return kMissedBeforeSteps;
  return std::max(kMissed, std::min(kMissedSteps * step, kMissedPart * step + kMissedBehind));
}

double stalled_wait(double step_ms) {
  const double step = step_ms * 1e-3;
  if (step <= 0) return kStallBeforeSteps;
  return std::max(kStall, std::min(kStallSteps * step, step + kStallBehind));
}

double since_last_step(std::span<const PresentPhase> ranks) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const PresentPhase& rank : ranks) seconds = std::min(seconds, rank.since_step);
  return seconds;
}

// A rank with a role of its own may wait for long while the others train.
std::optional<Standstill> standstill_of(std::span<const PresentPhase> ranks, double step_ms,
                                        bool counts_alike) {
  Standstill still;
  for (const PresentPhase& rank : ranks)
    if (rank.phase == Phase::wait) still.seconds = std::max(still.seconds, rank.seconds);
  still.seconds = std::min(still.seconds, since_last_step(ranks));
  if (still.seconds < notable_wait(step_ms)) return std::nullopt;
  if (const auto pausing = pausing_rank(ranks); pausing && !has_other_culprit(ranks, step_ms)) {
    still.culprit = pausing;
    still.is_pause = true;
    still.is_stall = pausing->seconds >= pausing->pauses.limit(pausing->phase);
    return still;
  }
  still.is_stall = still.seconds >= stalled_wait(step_ms);
  still.culprit = culprit_of(ranks, counts_alike);
  return still;
}

std::string name_of(LineState state) {
  constexpr std::array<std::string_view, 7> kNames{"starting", "running", "waiting", "stalled",
                                                   "failed",   "ended",   "lost"};
  return std::string(kNames[static_cast<std::size_t>(state)]);
}

std::string with_commas(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string in_words(const LineFacts& facts) {
  const Progress& progress = facts.progress;
  std::string text = name_of(facts.state);
  if (facts.has_steps)
    text += progress_in_words(progress, facts.state == LineState::running ? facts.now_at : 0);
  if (facts.state == LineState::waiting || facts.state == LineState::stalled)
    text += standstill_in_words(facts);
  if (facts.state == LineState::running) {
    const std::string slow = facts.slow_cards.words();
    text += slow.empty() ? lateness_in_words(facts) : "; " + slow;  // a card holds all ranks up in turn
  }
  return facts.words.empty() ? text : fmt::format("{}: {}", text, facts.words);
}

}  // namespace rueda
