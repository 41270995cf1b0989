// SPDX-License-Identifier: Apache-2.0
// What moving bytes costs, as measured, and what a step would cost if Plans were made in another way.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/control/scheduling/fusion_planner.h"
#include "core/control/scheduling/tuning_parameters.h"

namespace rueda {

// What rank 0 measured of a Plan of its own.
struct PlanTime {
  std::uint8_t backend = 0;
  std::int64_t chunk_bytes = 0;
  std::int64_t bytes = 0;  // of the buffer
  Operation operation = Operation::allreduce;
  Time planned{};
  Time finished{};
  bool last = false;  // no other Plan of this rank was under way any more
};

// Purpose: a line, time = per_plan * Plans + per_byte * bytes, fitted to stretches of work so that a few that
// were disturbed do not count much. Keeps the last kMost stretches of Plans of about one size, so that many
// small ones do not drive the large ones out. Cost of a fit: linear in what is kept.
class CostLine {
 public:
  static constexpr std::size_t kMost = 32;

  void add(double plans, double bytes, double seconds);
  // Seconds; both are at least 0.
  struct Fit {
    double per_plan = 0;
    double per_byte = 0;
  };
  const Fit& fit() const;

 private:
  struct Stretch {
    double plans = 0;
    double bytes = 0;
    double seconds = 0;
  };
  static Fit solved(const std::vector<Stretch>& stretches, const std::vector<double>& weights);

  std::map<int, std::deque<Stretch>> by_size_;  // of a Plan, as a power of 2
  mutable std::optional<Fit> fit_;
};

// The requests of a step as they became ready at rank 0, and whether others were on their way just then.
struct StepTrace {
  struct Arrival {
    Duration at{};  // since the step began
    bool others_on_their_way = false;
    std::vector<SharedRequest> requests;
  };
  std::vector<Arrival> arrivals;
};

// What would become of a step.
struct Prediction {
  struct Call {
    Duration at{};
    std::int64_t bytes = 0;
    std::uint8_t backend = 0;
    std::int64_t chunk_bytes = 0;
    friend bool operator==(const Call&, const Call&) = default;
  };
  std::vector<Call> calls;
  // When its last Plan would be done; nothing where a backend was never measured.
  std::optional<double> seconds;
};

// Purpose: one line for each backend and size of messages. Pure; owned by the Autotuner at rank 0. Plans are
// taken to be carried out one after another: a rank has one background thread, and works in flight share it.
class CostModel {
 public:
  // Plans of other operations than fusable ones only tell when the backends were busy.
  void add(const PlanTime& time);
  // nullptr: that backend was never measured. Where this size of messages was not, the nearest one counts.
  const CostLine* line(std::uint8_t backend, std::int64_t chunk_bytes) const;
  // Runs the trace through a Coordinator and FusionPlanner of these parameters.
  Prediction predict(const StepTrace& trace, const TuningParameters& parameters,
                     const FusionPlanner::ChooseBackend& first_backend,
                     const FusionPlanner::ChooseBackend& second_backend) const;

 private:
  using Route = std::pair<std::uint8_t, std::int64_t>;  // backend, chunk_bytes
  struct Sum {
    double plans = 0;
    double bytes = 0;
    double seconds = 0;
  };

  std::map<Route, CostLine> lines_;
  std::map<Route, Sum> stretch_;  // from the first Plan under way until none is
  std::size_t stretch_plans_ = 0;
  Time busy_until_{};
};

}  // namespace rueda
