// SPDX-License-Identifier: Apache-2.0
// The Plans that a recorded step would get with other parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "core/control/scheduling/fusion_planner.h"
#include "core/control/scheduling/tuning_parameters.h"

namespace rueda {

// The requests of a step as they became ready at rank 0, and whether others were on their way just then.
struct StepTrace {
  struct Arrival {
    Duration at{};  // since the step began
    bool others_on_their_way = false;
    std::vector<SharedRequest> requests;
  };
  std::vector<Arrival> arrivals;
};

// Purpose: runs a recorded step through a real Coordinator and FusionPlanner. So nobody needs to measure
// parameters that make the very same Plans. Pure; owned by the Autotuner.
struct StepReplay {
  struct Call {
    Duration at{};
    std::int64_t bytes = 0;
    std::uint8_t backend = 0;
    std::int64_t chunk_bytes = 0;
    friend bool operator==(const Call&, const Call&) = default;
  };

  std::vector<Call> calls(const StepTrace& trace, const TuningParameters& parameters) const;

  FusionPlanner::ChooseBackend first_backend;
  FusionPlanner::ChooseBackend second_backend;
};

}  // namespace rueda
