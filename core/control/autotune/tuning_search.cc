// SPDX-License-Identifier: Apache-2.0
#include "core/control/autotune/tuning_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/median.h"

namespace rueda {
namespace {

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;
constexpr int kWatchSamples = 5;       // a window of watching is as long as so many
constexpr double kHopeless = 0.10;     // predicted to be worse by more: not measured
constexpr int kMostAlternations = 15;  // while it is not clear

// How many of the alternations must be better by more than kBetter so that chance is not the reason.
int needed(int alternations) { return alternations == 5 ? 5 : alternations == 10 ? 9 : 13; }

template <class T>
bool contains(const std::vector<T>& values, const T& value) {
  return std::ranges::find(values, value) != values.end();
}

}  // namespace

TuningSearch::TuningSearch(int pattern, const Settings& settings, const TuningParameters& start,
                           Predict predict)
    : pattern_(pattern),
      settings_(settings),
      predict_(std::move(predict)),
      phase_(settings.warmup_samples > 0 ? Phase::warming : Phase::probing),
      start_(start),
      base_(start),
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

void TuningSearch::step(StepDetector::Step step) {
  if (skip_ > 0) {
    --skip_;
    return;
  }
  const double seconds = std::chrono::duration<double>(step.time).count();
  if (phase_ == Phase::probing && samples_ == 0 && (trace_.arrivals.empty() || seconds < quickest_)) {
    quickest_ = seconds;
    trace_ = std::move(step.trace);
  }
  times_.push_back(seconds);
  const int wanted = settings_.steps_per_sample * (phase_ == Phase::watching ? kWatchSamples : 1);
  if (times_.size() < static_cast<std::size_t>(wanted)) return;
  sampled(median_of(std::exchange(times_, {})));
}

void TuningSearch::sampled(double seconds) {
  ++samples_;
  switch (phase_) {
    case Phase::warming:
      record("warmup", seconds);
      if (samples_ < settings_.warmup_samples) return;
      phase_ = Phase::probing;
      samples_ = 0;
      return;
    case Phase::probing: return probed(seconds);
    case Phase::comparing: return compared(seconds);
    case Phase::watching: return watched(seconds);
  }
}

// --- Probing: the model learns.

void TuningSearch::probed(double seconds) {
  record("probe", seconds);
  if (samples_ == 1) {
    base_seconds_ = seconds;
    probes_ = probes();
  }
  if (!probes_.empty()) {
    use(probes_.back());
    return probes_.pop_back();
  }
  look_for_candidates();
}

// Other Plans for the same step: an eighth of it each, every tensor alone, everything by the second route.
std::vector<TuningParameters> TuningSearch::probes() const {
  std::int64_t bytes = 0;
  for (const Prediction::Call& call : predict_(trace_, base_).calls) bytes += call.bytes;
  TuningParameters parts = base_, single = base_, rerouted = base_;
  parts.fusion_threshold = std::max(bytes / 8, std::int64_t{1});
  single.fusion_threshold = 0;
  rerouted.route_bytes = 0;
  std::vector<TuningParameters> chosen;
  std::vector<std::vector<Prediction::Call>> seen{predict_(trace_, base_).calls};
  for (const TuningParameters& parameters : {rerouted, single, parts}) {
    std::vector<Prediction::Call> calls = predict_(trace_, parameters).calls;
    if (contains(seen, calls)) continue;
    seen.push_back(std::move(calls));
    chosen.push_back(parameters);
  }
  return chosen;
}

// --- Predicting: what is worth a measurement.

// The base with one knob changed, and the defaults.
std::vector<TuningParameters> TuningSearch::variations() const {
  std::int64_t bytes = 0;
  for (const Prediction::Call& call : predict_(trace_, base_).calls) bytes += call.bytes;
  const TuningParameters& defaults = settings_.defaults;
  std::vector<TuningParameters> all{defaults};
  auto vary = [&](auto TuningParameters::*field, auto value) {
    all.push_back(base_);
    all.back().*field = value;
  };
  for (std::int64_t threshold :
       {std::int64_t{0}, 4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB,
        256 * kMiB, bytes / 4, bytes / 2, defaults.fusion_threshold})
    vary(&TuningParameters::fusion_threshold, threshold);
  for (int microseconds : {0, 100, 300, 1000, 3000, 10000})
    vary(&TuningParameters::linger, Duration(std::chrono::microseconds(microseconds)));
  vary(&TuningParameters::linger, defaults.linger);
  for (std::int64_t route : {std::int64_t{0}, kKiB, 4 * kKiB, 64 * kKiB, kMiB, TuningParameters::kUnlimited})
    vary(&TuningParameters::route_bytes, route);
  vary(&TuningParameters::route_bytes, defaults.route_bytes);
  for (std::int64_t chunk : {base_.chunk_bytes * 4, base_.chunk_bytes / 4, base_.chunk_bytes / 2,
                             base_.chunk_bytes * 2, defaults.chunk_bytes})
    vary(&TuningParameters::chunk_bytes, std::clamp(chunk, std::min(64 * kKiB, defaults.chunk_bytes),
                                                    std::max(4 * kMiB, defaults.chunk_bytes)));
  return all;
}

std::optional<double> TuningSearch::predicted_step(const Prediction& prediction) const {
  if (!prediction.seconds || !base_predicted_) return std::nullopt;
  return std::max(base_seconds_ + *prediction.seconds - *base_predicted_, 0.0);
}

void TuningSearch::look_for_candidates() {
  queue_.clear();
  const Prediction of_base = predict_(trace_, base_);
  base_predicted_ = of_base.seconds;
  if (!contains(tried_, base_)) tried_.push_back(base_);
  std::vector<std::vector<Prediction::Call>> seen{of_base.calls};
  for (const TuningParameters& parameters : variations()) {
    if (contains(tried_, parameters)) continue;
    Prediction prediction = predict_(trace_, parameters);
    if (contains(seen, prediction.calls)) continue;  // the same Plans at the same times
    seen.push_back(std::move(prediction.calls));
    const std::optional<double> step = predicted_step(prediction);
    const bool hopeless = step && *step > base_seconds_ * (1 + kHopeless);
    TuningRecord& line = record("predicted", {}, difference(base_, parameters));
    line.parameters = parameters;
    if (step) line.predicted_ms = *step * 1e3;
    if (hopeless) line.words += "; not worth a measurement";
    if (!hopeless) queue_.push_back({parameters, step});
  }
  std::ranges::stable_sort(queue_, std::greater{}, [](const Candidate& candidate) {
    return candidate.predicted.value_or(std::numeric_limits<double>::max());
  });
  compare_next();
}

// --- Measuring, in alternation.

void TuningSearch::compare_next() {
  samples_ = 0;
  base_samples_.clear();
  candidate_samples_.clear();
  use(base_);
  if (queue_.empty() || measured_ == settings_.candidates) return settle();
  phase_ = Phase::comparing;
  ++measured_;
  candidate_ = std::move(queue_.back());
  queue_.pop_back();
  tried_.push_back(candidate_.parameters);
}

void TuningSearch::compared(double seconds) {
  const bool of_base = parameters_ == base_;
  std::vector<double>& samples = of_base ? base_samples_ : candidate_samples_;
  samples.push_back(seconds);
  TuningRecord& line = record(of_base ? "base" : "candidate", seconds);
  line.sample = static_cast<int>(samples.size());
  if (!of_base && candidate_.predicted) line.predicted_ms = *candidate_.predicted * 1e3;
  use(of_base ? candidate_.parameters : base_);
  if (!of_base && samples.size() % kAlternations == 0) judge();
}

void TuningSearch::judge() {
  const auto alternations = static_cast<int>(candidate_samples_.size());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < candidate_samples_.size(); ++i)
    ratios.push_back(candidate_samples_[i] / base_samples_[i]);
  const auto better = std::ranges::count_if(ratios, [](double ratio) { return ratio < 1 - kBetter; });
  const double gain = 1 - median_of(ratios);
  // Five may all be better by chance; then no sample of the base may be as quick as one of the candidate.
  const bool apart = std::ranges::max(candidate_samples_) < std::ranges::min(base_samples_);
  const bool wins =
      gain > kBetter && better >= needed(alternations) && (alternations > kAlternations || apart);
  if (!wins && gain > kBetter && alternations < kMostAlternations) return;  // not clear yet
  const double seconds = median_of(candidate_samples_);
  TuningRecord& line = record("compared", seconds);
  line.parameters = candidate_.parameters;
  line.sample = alternations;
  if (candidate_.predicted) line.predicted_ms = *candidate_.predicted * 1e3;
  const std::string what = difference(base_, candidate_.parameters);
  line.words = fmt::format(
      "{}: {:+.1f} % in the median of {} alternations, {} of them better by more than "
      "3 %: {}",
      what, 0.0 - gain * 100, alternations, better, wins ? "taken" : "not taken");
  if (nearest_.empty() || gain > nearest_gain_) {
    nearest_ = what;
    nearest_gain_ = gain;
  }
  base_seconds_ = wins ? seconds : median_of(base_samples_);
  if (!wins) return compare_next();
  base_ = candidate_.parameters;
  factor_ *= 1 - gain;
  if (measured_ == settings_.candidates) return compare_next();
  look_for_candidates();
}

void TuningSearch::settle() {
  phase_ = Phase::watching;
  reference_.reset();
  drifting_ = false;
  std::string words;
  const std::string whose = start_ == settings_.defaults ? "the defaults" : "the parameters";
  if (base_ != start_) {
    words = fmt::format("{}: by alternation a step takes {:.1f} % less ({} candidates measured)",
                        difference(start_, base_), (1 - factor_) * 100, measured_);
  } else if (measured_ == 0) {
    words = fmt::format("keeps {}: no other choice is predicted to be better", whose);
  } else {
    words = fmt::format(
        "keeps {}: of {} candidates measured, none was reliably better by more than 3 %; the "
        "nearest, {}: {:+.1f} %",
        whose, measured_, nearest_, 0.0 - nearest_gain_ * 100);
  }
  record("verdict", base_seconds_, std::move(words));
}

// --- Watching.

void TuningSearch::watched(double seconds) {
  if (!reference_) {
    reference_ = seconds;
    return;
  }
  const bool other = std::abs(seconds / *reference_ - 1) > kDrift;
  if (other && drifting_ && search_ < kMostSearches) return search_again(seconds);
  drifting_ = other;  // once may be chance
}

void TuningSearch::search_again(double seconds) {
  record("drift", seconds,
         fmt::format("a step took {:.3f} ms after the last search; searches again", *reference_ * 1e3));
  ++search_;
  phase_ = Phase::probing;
  samples_ = measured_ = 0;
  factor_ = 1;
  start_ = base_;
  trace_ = {};
  tried_.clear();
  nearest_.clear();
}

void TuningSearch::end() {
  if (phase_ == Phase::watching) return;
  const TuningParameters best = base_;
  TuningRecord& line = record(
      "verdict", {},
      fmt::format("the job ended during the search, with {} candidates measured; until then: {}",
                  std::max(0, measured_ - (phase_ == Phase::comparing ? 1 : 0)), difference(start_, best)));
  line.parameters = best;
}

TuningRecord& TuningSearch::record(std::string_view state, std::optional<double> measured,
                                   std::string words) {
  TuningRecord line;
  line.pattern = pattern_;
  line.search = search_;
  line.state = state;
  line.parameters = parameters_;
  line.words = std::move(words);
  if (measured) line.measured_ms = *measured * 1e3;
  return records_.emplace_back(std::move(line));
}

}  // namespace rueda
