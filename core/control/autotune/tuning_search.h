// SPDX-License-Identifier: Apache-2.0
// The search for better parameters for one pattern of steps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/control/autotune/step_detector.h"

namespace rueda {

// One line of the tuner's log: what it tried, predicted and measured. A plain value.
struct TuningRecord {
  int pattern = 0;         // which steps, by number
  int search = 1;          // of that pattern
  std::string_view state;  // warmup, probe, predicted, base, candidate, compared, verdict, drift
  int sample = 0;          // base and candidate: of this comparison, from 1; compared: how many there were
  TuningParameters parameters;
  std::optional<double> predicted_ms;  // the time of a step
  std::optional<double> measured_ms;   // the median of the sample's steps; compared: of all of its samples
  std::string words;
};

// Purpose: warms up, probes (a few ways to cut the step into Plans, so that the cost model learns), predicts
// the step for each change of one knob, and measures the most promising ones in alternation with the base,
// one after another; who wins becomes the base. Then it watches, and begins again when steps take 10 % more
// or less than they did. Pure; owned by the Autotuner at rank 0.
class TuningSearch {
 public:
  static constexpr double kBetter = 0.03;  // a candidate must be better by more
  static constexpr double kDrift = 0.10;
  static constexpr int kAlternations = 5;  // at least
  static constexpr int kMostSearches = 5;

  struct Settings {
    int warmup_samples = 3;
    int steps_per_sample = 10;
    int candidates = 6;  // measured in a search, at most
    TuningParameters defaults;
  };
  static Settings settings_of(const Config& config);
  using Predict = std::function<Prediction(const StepTrace&, const TuningParameters&)>;

  TuningSearch(int pattern, const Settings& settings, const TuningParameters& start, Predict predict);

  // Those of the step that begins now.
  const TuningParameters& parameters() const { return parameters_; }
  // The best ones so far.
  const TuningParameters& best() const { return base_; }
  // A step with parameters() has ended.
  void step(StepDetector::Step step);
  // Something else came between: the current sample begins anew.
  void interrupted();
  // The job ends.
  void end();
  std::vector<TuningRecord> take_records() { return std::exchange(records_, {}); }

 private:
  enum class Phase { warming, probing, comparing, watching };

  void use(const TuningParameters& parameters);
  void sampled(double seconds);
  void probed(double seconds);
  void compared(double seconds);
  void watched(double seconds);
  void search_again(double seconds);
  std::vector<TuningParameters> probes() const;
  std::vector<TuningParameters> variations() const;
  void look_for_candidates();
  void compare_next();
  void judge();
  void settle();
  std::optional<double> predicted_step(const Prediction& prediction) const;
  TuningRecord& record(std::string_view state, std::optional<double> measured, std::string words = {});

  const int pattern_;
  const Settings settings_;
  const Predict predict_;
  Phase phase_ = Phase::warming;
  int search_ = 1;
  TuningParameters start_;  // of this search
  TuningParameters base_;
  TuningParameters parameters_;
  int skip_ = 1;               // steps that do not count: the change takes effect within the first
  std::vector<double> times_;  // of the current sample, in seconds
  int samples_ = 0;            // of this phase

  StepTrace trace_;  // of the quickest step of the base
  double quickest_ = 0;
  double base_seconds_ = 0;
  std::optional<double> base_predicted_;
  double factor_ = 1;                     // of the time of a step, by what this search has taken
  std::vector<TuningParameters> probes_;  // still to come

  struct Candidate {
    TuningParameters parameters;
    std::optional<double> predicted;  // the time of a step
  };
  std::vector<Candidate> queue_;  // the most promising last
  Candidate candidate_;
  std::vector<TuningParameters> tried_;
  std::vector<double> base_samples_;
  std::vector<double> candidate_samples_;
  int measured_ = 0;  // candidates of this search
  std::string nearest_;
  double nearest_gain_ = 0;

  std::optional<double> reference_;  // after the search
  bool drifting_ = false;

  std::vector<TuningRecord> records_;
};

}  // namespace rueda
