// SPDX-License-Identifier: Apache-2.0
// Rank 0 looks for better knobs while the job runs.
#pragma once

#include <list>
#include <vector>

#include "core/control/knob_search.h"

namespace rueda {

// What the tuner has to tell since it was last asked.
struct TunerNews {
  std::vector<TuningRecord> records;
  Knobs knobs;  // in force now
};

// Purpose: hears what becomes ready and how long Plans took, and says which knobs are in force. Keeps a
// search for each of the last few patterns of steps, so that an evaluation between steps of training only
// pauses theirs. Pure: times and sizes in, knobs and records out. Owned by the Caller at rank 0; there is
// none when tuning is off.
class Autotuner {
 public:
  // The backends: see Planner.
  Autotuner(const KnobSearch::Settings& settings, Planner::ChooseBackend first_backend,
            Planner::ChooseBackend second_backend);

  // A request is ready. Whether the knobs are others from now on.
  bool ready(const SharedRequest& request, Time now);
  // All that are ready have been looked at.
  void looked(bool others_on_their_way) { watch_.looked(others_on_their_way); }
  void measured(const PlanTime& time) { model_.add(time); }
  // The job ends.
  void end();

  const Knobs& knobs() const { return knobs_; }
  TunerNews take_news();

 private:
  struct Pattern {
    std::uint64_t mark = 0;
    std::uint64_t last_step = 0;
    KnobSearch search;
  };

  void ended(StepWatch::Step step);
  Pattern& pattern(std::uint64_t mark);

  const KnobSearch::Settings settings_;
  const Planner::ChooseBackend first_backend_;
  const Planner::ChooseBackend second_backend_;
  StepWatch watch_;
  CostModel model_;
  Knobs knobs_;
  std::list<Pattern> patterns_;
  Pattern* active_ = nullptr;  // one of patterns_
  std::uint64_t last_mark_ = 0;
  int in_a_row_ = 0;  // steps of last_mark_
  int known_ = 0;     // patterns that there were
  std::uint64_t steps_ = 0;
  std::vector<TuningRecord> records_;
};

}  // namespace rueda
