// SPDX-License-Identifier: Apache-2.0
#include "core/control/autotune/step_replay.h"

#include <optional>

#include "core/control/scheduling/coordinator.h"

namespace rueda {

std::vector<StepReplay::Call> StepReplay::calls(const StepTrace& trace,
                                                const TuningParameters& parameters) const {
  Coordinator coordinator(FusionPlanner(parameters, first_backend, second_backend),
                          {parameters.linger, parameters.fusion_threshold, 0});
  std::vector<Call> calls;
  auto call = [&](Duration at, bool others) {
    for (const Plan& plan : coordinator.call(Time(at), others))
      calls.push_back({at, plan.buffer_bytes, plan.backend, plan.chunk_bytes});
  };
  auto call_until = [&](Time end) {
    if (const std::optional<Time> due = coordinator.due(); due && *due <= end)
      call(due->time_since_epoch(), false);
  };
  for (const StepTrace::Arrival& arrival : trace.arrivals) {
    call_until(Time(arrival.at));
    for (const SharedRequest& request : arrival.requests) coordinator.ready(request, {}, Time(arrival.at));
    call(arrival.at, arrival.others_on_their_way);
  }
  call_until(Time::max());
  return calls;
}

}  // namespace rueda
