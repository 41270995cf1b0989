// SPDX-License-Identifier: Apache-2.0
#include "core/control/autotune/tuning_search.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/median.h"

namespace rueda {
namespace {

constexpr int kWatchSamples = 5;  // a window of watching is as long as so many

}  // namespace

TuningSearch::TuningSearch(int pattern, const Settings& settings, const TuningParameters& start,
                           const StepReplay& replay)
    : pattern_(pattern),
      settings_(settings),
      replay_(replay),
      climb_(replay, settings.defaults, start, settings.candidates),
      parameters_(start) {}

TuningSearch::Settings TuningSearch::settings_of(const Config& config) {
  return {static_cast<int>(config.autotune_warmup_samples),
          static_cast<int>(config.autotune_steps_per_sample),
          static_cast<int>(config.autotune_candidates),
          {}};
}

void TuningSearch::use(const TuningParameters& parameters) {
  if (parameters != parameters_) skip_ = 1;
  parameters_ = parameters;
}

void TuningSearch::interrupted() {
  times_.clear();
  skip_ = 1;
}

void TuningSearch::step(const StepDetector::Step& step) {
  if (skip_ > 0) {
    --skip_;
    return;
  }
  const double seconds = std::chrono::duration<double>(step.time).count();
  if (state_ == State::warming && settings_.warmup_samples == 0) return compare_next(seconds, step.trace);
  times_.push_back(seconds);
  const int wanted = settings_.steps_per_sample * (watches() ? kWatchSamples : 1);
  if (times_.size() == static_cast<std::size_t>(wanted))
    sampled(median_of(std::exchange(times_, {})), step.trace);
}

void TuningSearch::sampled(double seconds, const StepTrace& trace) {
  switch (state_) {
    case State::warming:
      record("warmup", seconds);
      if (++samples_ >= settings_.warmup_samples) compare_next(seconds, trace);
      return;
    case State::comparing: return compared(seconds, trace);
    case State::watching:
      usual_ = seconds;
      state_ = State::settled;
      return;
    case State::settled:
    case State::drifting: return watched(seconds, trace);
  }
}

void TuningSearch::compare_next(double base_seconds, const StepTrace& trace) {
  use(climb_.base());
  const std::optional<TuningParameters> candidate = climb_.next(trace);
  if (!candidate) return settle(base_seconds);
  state_ = State::comparing;
  candidate_ = *candidate;
  comparison_ = {};
}

void TuningSearch::compared(double seconds, const StepTrace& trace) {
  TuningRecord& line = record(comparison_.of_base() ? "base" : "candidate", seconds);
  line.sample = comparison_.add(seconds);
  use(comparison_.of_base() ? climb_.base() : candidate_);
  const std::optional<Comparison::Verdict> verdict = comparison_.verdict();
  if (!verdict) return;
  TuningRecord& told = record("compared", verdict->candidate_seconds);
  told.parameters = candidate_;
  told.sample = verdict->alternations;
  told.words = fmt::format(
      "{}: {:+.1f} % in the median of {} alternations, {} of them better by more than "
      "3 %: {}",
      difference(climb_.base(), candidate_), 0.0 - verdict->gain * 100, verdict->alternations,
      verdict->better, verdict->wins ? "taken" : "not taken");
  if (verdict->wins) {
    climb_.won(candidate_, verdict->gain);
  } else {
    climb_.lost();
  }
  compare_next(verdict->wins ? verdict->candidate_seconds : verdict->base_seconds, trace);
}

void TuningSearch::settle(double seconds) {
  state_ = State::watching;
  const std::string whose = climb_.start() == settings_.defaults ? "the defaults" : "the parameters";
  std::string words;
  if (climb_.base() != climb_.start()) {
    words = fmt::format("{}: by alternation a step takes {:.1f} % less ({} candidates measured)",
                        difference(climb_.start(), climb_.base()), climb_.gain() * 100, climb_.tried());
  } else if (settings_.candidates == 0) {
    words = fmt::format("keeps {}: 0 candidates may be measured", whose);
  } else if (climb_.tried() == 0) {
    words = fmt::format("keeps {}: no other choice makes other Plans", whose);
  } else {
    words = fmt::format("keeps {}: of {} candidates measured, none was reliably better by more than 3 %",
                        whose, climb_.tried());
  }
  record("verdict", seconds, std::move(words));
}

void TuningSearch::watched(double seconds, const StepTrace& trace) {
  const bool drifts = std::abs(seconds / usual_ - 1) > kDrift;
  const bool again = drifts && state_ == State::drifting && search_ < kMostSearches;
  state_ = drifts ? State::drifting : State::settled;
  if (!again) return;
  record("drift", seconds,
         fmt::format("a step took {:.3f} ms after the last search; searches again", usual_ * 1e3));
  ++search_;
  climb_ = HillClimb(replay_, settings_.defaults, climb_.base(), settings_.candidates);
  compare_next(seconds, trace);
}

void TuningSearch::end() {
  if (watches()) return;
  TuningRecord& line =
      record("verdict", {},
             fmt::format("the job ended during the search ({}), with {} candidates measured; until then: {}",
                         to_string(state_), climb_.tried() - (state_ == State::comparing ? 1 : 0),
                         difference(climb_.start(), best())));
  line.parameters = best();
}

TuningRecord& TuningSearch::record(std::string_view state, std::optional<double> measured,
                                   std::string words) {
  TuningRecord line{pattern_, search_, state, 0, parameters_, std::nullopt, std::move(words)};
  if (measured) line.measured_ms = *measured * 1e3;
  return records_.emplace_back(std::move(line));
}

std::string_view to_string(TuningSearch::State state) {
  switch (state) {
    case TuningSearch::State::warming: return "warming up";
    case TuningSearch::State::comparing: return "comparing";
    case TuningSearch::State::watching: return "watching";
    case TuningSearch::State::settled: return "settled";
    case TuningSearch::State::drifting: return "drifting";
  }
  return "";
}

}  // namespace rueda
