// SPDX-License-Identifier: Apache-2.0
// The part of a job's state that rank 0 alone has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/control/autotune/autotuner.h"
#include "core/control/messages/plan.h"
#include "core/control/negotiation/process_sets.h"
#include "core/control/scheduling/coordinator.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: the Negotiator's state at rank 0, the root of the control tree. It has the Coordinator, which
// decides, and the numbers of Plans. Owned by that Negotiator.
struct RootState {
  // The last rank to ask for an operation (of a subtree: its uppermost rank), and the delay after the first.
  struct LastOne {
    Rank rank = 0;
    Duration after{};
  };
  struct Settings {
    FusionPlanner::ChooseBackend choose_backend;  // asked of Plans that have their members
    FusionPlanner::ChooseBackend second_backend;  // the next best; none needed without tuning
    TuningParameters parameters;
    Coordinator::Settings coordinator;
    std::optional<TuningSearch::Settings> tuning;
    bool full_join = false;
  };

  // `sets` outlives this.
  RootState(const ProcessSets& sets, ProcessSetId next_set, Settings settings);

  // Numbers Plans from `last` on.
  void number(std::vector<Plan>& plans, std::uint64_t last);

  std::unique_ptr<Autotuner> tuner;  // may be none; the coordinator uses it
  std::unique_ptr<Coordinator> coordinator;
  const bool full_join;
  ProcessSetId next_set;
  std::uint8_t next_area = 0;
  bool takes_part = true;  // in the last Plan; else rank 0 does not see when that is over
  RankSet rested;
  RankSet leaving;  // with the Report that is being read
  std::vector<LastOne> last_ones;
};

}  // namespace rueda
