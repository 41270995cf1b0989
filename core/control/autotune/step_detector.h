// SPDX-License-Identifier: Apache-2.0
// Finds the steps of a program in what becomes ready at rank 0.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>

#include "core/control/autotune/step_replay.h"

namespace rueda {

// Purpose: cuts the sequence of ready requests into steps. A step begins when a name comes again that was
// already in the one before; what is in it (names, sizes, not their order) is its pattern. So a step of
// training is a step whatever its ranks call it, and an evaluation is a pattern of its own. Only allreduces
// of the set of all ranks make up steps. Pure; owned by the Autotuner at rank 0.
class StepDetector {
 public:
  struct Step {
    std::uint64_t pattern = 0;
    Duration time{};  // until the next one began
    StepTrace trace;
  };

  // `request` is ready. If it begins a step, the one that has ended with it.
  std::optional<Step> ready(const SharedRequest& request, Time now);
  // All that are ready have been looked at.
  void looked(bool others_on_their_way);

 private:
  void begin(Time now);

  StepTrace trace_;
  std::unordered_set<KeyView, KeyHash, KeyEqual> names_;  // of requests that the trace holds
  std::size_t tensors_ = 0;                               // of these, groups counted out
  std::uint64_t pattern_ = 0;
  Time begun_{};
  bool looked_ = true;  // the next request opens an Arrival
  bool whole_ = false;  // its beginning was seen
};

}  // namespace rueda
