// SPDX-License-Identifier: Apache-2.0
// The next candidate of the tuner: the base with one parameter moved a step up or down.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/control/autotune/step_replay.h"

namespace rueda {

// Purpose: names the neighbours of the base one after another, with steps of 4 first and then of 2. A
// direction that won goes on; one that lost makes room for the next. Whoever asks measures. Pure; owned by a
// TuningSearch.
class HillClimb {
 public:
  // `most`: candidates.
  HillClimb(const StepReplay& replay, const TuningParameters& defaults, const TuningParameters& start,
            int most);

  // The next candidate: it makes other Plans of this step than the base and all that was tried.
  std::optional<TuningParameters> next(const StepTrace& trace);
  // The candidate was better by so much, as a part of 1, and becomes the base.
  void won(const TuningParameters& candidate, double gain);
  void lost() { ++direction_; }

  const TuningParameters& start() const { return tried_.front(); }
  const TuningParameters& base() const { return base_; }
  int tried() const { return static_cast<int>(tried_.size()) - 1; }
  // Returns the part of a step's time that all winners together have saved; 1 is the whole step.
  double gain() const { return 1 - left_; }

 private:
  const StepReplay* replay_;
  TuningParameters defaults_;
  TuningParameters base_;
  int most_;
  std::vector<TuningParameters> tried_;  // the first is where the climb began
  std::size_t direction_ = 0;
  bool climbed_ = false;  // in this round of all directions
  double left_ = 1;
};

}  // namespace rueda
