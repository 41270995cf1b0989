// SPDX-License-Identifier: Apache-2.0
// The search for better parameters for one pattern of steps.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/control/autotune/comparison.h"
#include "core/control/autotune/hill_climb.h"
#include "core/control/autotune/step_detector.h"

namespace rueda {

// One line of the tuner's log: what it tried and measured. A plain value.
struct TuningRecord {
  int pattern = 0;         // which steps, by number
  int search = 1;          // of that pattern
  std::string_view state;  // warmup, base, candidate, compared, verdict, drift
  int sample = 0;          // base and candidate: of this comparison, from 1; compared: how many there were
  TuningParameters parameters;
  std::optional<double> measured_ms;  // the median of the sample's steps; compared: of all of its samples
  std::string words;
};

// Purpose: warms up, then measures the base and one neighbour in alternation. The winner is the next base. If
// no neighbour is better, TuningSearch watches the steps. It searches again when they take 10 % more or less
// time than before. Pure; owned by the Autotuner at rank 0.
class TuningSearch {
 public:
  static constexpr double kDrift = 0.10;
  static constexpr int kMostSearches = 5;

  enum class State {
    warming,    // no sample counts
    comparing,  // the base and a candidate take turns
    watching,   // the first window tells how long steps take
    settled,    // the last window was as long
    drifting,   // the last window was not: once may be chance
  };

  struct Settings {
    int warmup_samples = 3;
    int steps_per_sample = 10;
    int candidates = 20;  // measured in a search, at most
    TuningParameters defaults;
  };
  static Settings settings_of(const Config& config);

  // `replay` outlives this.
  TuningSearch(int pattern, const Settings& settings, const TuningParameters& start,
               const StepReplay& replay);

  // Those of the step that begins now.
  const TuningParameters& parameters() const { return parameters_; }
  // The best ones so far.
  const TuningParameters& best() const { return climb_.base(); }
  // A step with parameters() has ended.
  void step(const StepDetector::Step& step);
  // Something else came between: the current sample begins anew.
  void interrupted();
  // The job ends.
  void end();
  std::vector<TuningRecord> take_records() { return std::exchange(records_, {}); }

 private:
  bool watches() const { return state_ >= State::watching; }
  void use(const TuningParameters& parameters);
  void sampled(double seconds, const StepTrace& trace);
  void compared(double seconds, const StepTrace& trace);
  void watched(double seconds, const StepTrace& trace);
  void compare_next(double base_seconds, const StepTrace& trace);
  void settle(double seconds);
  TuningRecord& record(std::string_view state, std::optional<double> measured, std::string words = {});

  const int pattern_;
  const Settings settings_;
  const StepReplay& replay_;
  State state_ = State::warming;
  int search_ = 1;
  HillClimb climb_;
  TuningParameters parameters_;
  TuningParameters candidate_;
  int samples_ = 0;            // of the warm-up
  int skip_ = 1;               // steps that do not count: the change takes effect within the first
  std::vector<double> times_;  // of the current sample, in seconds
  Comparison comparison_;
  double usual_ = 0;  // seconds of a step after the search
  std::vector<TuningRecord> records_;
};

std::string_view to_string(TuningSearch::State state);

}  // namespace rueda
