// SPDX-License-Identifier: Apache-2.0
#include "core/control/autotune/cost_model.h"

#include <algorithm>
#include <cmath>

#include "core/base/median.h"
#include "core/base/operation_traits.h"
#include "core/control/scheduling/coordinator.h"

namespace rueda {
namespace {

constexpr std::size_t kLongestStretch = 4096;  // Plans; one without an end counts as ended then

}  // namespace

void CostLine::add(double plans, double bytes, double seconds) {
  fit_.reset();
  std::deque<Stretch>& alike = by_size_[std::ilogb(bytes / plans + 1)];
  if (alike.size() == kMost) alike.pop_front();
  alike.push_back({plans, bytes, seconds});
}

// Weighted least squares.
CostLine::Fit CostLine::solved(const std::vector<Stretch>& stretches, const std::vector<double>& weights) {
  double pp = 0, pb = 0, bb = 0, pt = 0, bt = 0;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const Stretch& s = stretches[i];
    pp += weights[i] * s.plans * s.plans;
    pb += weights[i] * s.plans * s.bytes;
    bb += weights[i] * s.bytes * s.bytes;
    pt += weights[i] * s.plans * s.seconds;
    bt += weights[i] * s.bytes * s.seconds;
  }
  const double determinant = pp * bb - pb * pb;
  const bool tells_apart = determinant > 1e-9 * pp * bb;  // not all Plans were of one size
  Fit fit;
  if (tells_apart) fit = {(pt * bb - bt * pb) / determinant, (bt * pp - pt * pb) / determinant};
  if (!tells_apart || fit.per_plan < 0) fit = {0, bb > 0 ? bt / bb : 0};
  if (fit.per_byte < 0 || bb == 0) fit = {pt / pp, 0};
  return fit;
}

// Repeated: what lies far from the last line counts less. Errors are relative to the time itself.
const CostLine::Fit& CostLine::fit() const {
  if (fit_) return *fit_;
  constexpr int kRounds = 20;
  constexpr double kFar = 1.345;  // in units of the usual error
  std::vector<Stretch> stretches;
  for (const auto& [size, alike] : by_size_) stretches.insert(stretches.end(), alike.begin(), alike.end());
  std::vector<double> weights;
  for (const Stretch& s : stretches) weights.push_back(1 / std::max(s.seconds * s.seconds, 1e-14));
  Fit fit;
  for (int round = 0; round < kRounds; ++round) {
    fit = solved(stretches, weights);
    std::vector<double> errors;
    for (const Stretch& s : stretches)
      errors.push_back(s.seconds / std::max(fit.per_plan * s.plans + fit.per_byte * s.bytes, 1e-7) - 1);
    std::vector<double> sizes = errors;
    for (double& size : sizes) size = std::abs(size);
    const double usual = std::max(1.4826 * median_of(sizes), 1e-3);
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      const Stretch& s = stretches[i];
      const double wanted = std::max(fit.per_plan * s.plans + fit.per_byte * s.bytes, 1e-7);
      const double far = std::abs(errors[i]) / (kFar * usual);
      weights[i] = (far <= 1 ? 1 : 1 / (far * far)) / (wanted * wanted);
    }
  }
  fit_ = fit;
  return *fit_;
}

void CostModel::add(const PlanTime& time) {
  const Duration took = time.finished - std::max(time.planned, busy_until_);
  busy_until_ = std::max(busy_until_, time.finished);
  if (traits(time.operation).fusable) {
    Sum& sum = stretch_[{time.backend, time.chunk_bytes}];
    sum.plans += 1;
    sum.bytes += static_cast<double>(time.bytes);
    sum.seconds += std::max(std::chrono::duration<double>(took).count(), 0.0);
  }
  if (!time.last && ++stretch_plans_ < kLongestStretch) return;
  stretch_plans_ = 0;
  for (const auto& [route, sum] : stretch_) lines_[route].add(sum.plans, sum.bytes, sum.seconds);
  stretch_.clear();
}

const CostLine* CostModel::line(std::uint8_t backend, std::int64_t chunk_bytes) const {
  const CostLine* nearest = nullptr;
  double least = 0;
  for (const auto& [route, line] : lines_) {
    if (route.first != backend) continue;
    const double far =
        std::abs(std::log(static_cast<double>(route.second)) - std::log(static_cast<double>(chunk_bytes)));
    if (nearest == nullptr || far < least) {
      nearest = &line;
      least = far;
    }
  }
  return nearest;
}

Prediction CostModel::predict(const StepTrace& trace, const TuningParameters& parameters,
                              const FusionPlanner::ChooseBackend& first_backend,
                              const FusionPlanner::ChooseBackend& second_backend) const {
  Coordinator coordinator(FusionPlanner(parameters, first_backend, second_backend),
                          {parameters.linger, parameters.fusion_threshold, 0});
  Prediction result;
  auto call = [&](Duration at, bool others) {
    for (const Plan& plan : coordinator.call(Time(at), others))
      result.calls.push_back({at, plan.buffer_bytes, plan.backend, plan.chunk_bytes});
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
  double busy_until = 0;
  for (const Prediction::Call& plan : result.calls) {
    const CostLine* costs = line(plan.backend, plan.chunk_bytes);
    if (costs == nullptr) return result;
    const CostLine::Fit& fit = costs->fit();
    busy_until = std::max(busy_until, std::chrono::duration<double>(plan.at).count()) + fit.per_plan +
                 fit.per_byte * static_cast<double>(plan.bytes);
  }
  result.seconds = busy_until;
  return result;
}

}  // namespace rueda
