// SPDX-License-Identifier: Apache-2.0
// Rank 0 looks for better parameters while the job runs.
#pragma once

#include <list>
#include <vector>

#include "core/control/autotune/tuning_search.h"
#include "core/control/scheduling/tuner.h"

namespace rueda {

// News of the tuner since the last call.
struct TunerNews {
  std::vector<TuningRecord> records;
  TuningParameters parameters;  // in force now
};

// Purpose: hears what becomes ready, and says which parameters are in force. Keeps a search for each of the
// last few patterns of steps, so that an evaluation between steps of training only pauses theirs. Pure: times
// and sizes in, parameters and records out. Owned by the Negotiator of rank 0; there is none when tuning is
// off.
class Autotuner : public Tuner {
 public:
  // The backends: see FusionPlanner.
  Autotuner(const TuningSearch::Settings& settings, FusionPlanner::ChooseBackend first_backend,
            FusionPlanner::ChooseBackend second_backend);

  bool ready(const SharedRequest& request, Time now) override;
  void looked(bool others_on_their_way) override { watch_.looked(others_on_their_way); }
  // The job ends.
  void end();

  const TuningParameters& parameters() const override { return parameters_; }
  TunerNews take_news();

 private:
  struct Pattern {
    std::uint64_t mark = 0;
    std::uint64_t last_step = 0;
    TuningSearch search;
  };

  void ended(const StepDetector::Step& step);
  Pattern& pattern(std::uint64_t mark);

  const TuningSearch::Settings settings_;
  const StepReplay replay_;
  StepDetector watch_;
  TuningParameters parameters_;
  std::list<Pattern> patterns_;
  Pattern* active_ = nullptr;  // one of patterns_
  std::uint64_t last_mark_ = 0;
  int in_a_row_ = 0;  // steps of last_mark_
  int known_ = 0;     // patterns that there were
  std::uint64_t steps_ = 0;
  std::vector<TuningRecord> records_;
};

}  // namespace rueda
