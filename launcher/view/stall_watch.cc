// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/stall_watch.h"

#include <algorithm>

namespace rueda {
namespace {

// Seconds, and steps of short ones. Of long steps a part is enough.
constexpr double kNotable = 0.5, kNotableSteps = 3, kNotablePart = 0.5, kNotableBehind = 10;
constexpr double kStall = 5, kStallSteps = 10, kStallBehind = 60;
constexpr double kNotableBeforeSteps = 2, kStallBeforeSteps = 30;

// The one that has been longest in its phase. Where all wait, one that waits in an earlier step has stopped.
std::optional<PresentPhase> culprit_of(std::span<const PresentPhase> ranks, bool counts_alike) {
  std::optional<PresentPhase> culprit;
  std::uint64_t latest = 0;
  for (const PresentPhase& rank : ranks) {
    latest = std::max(latest, rank.step);
    if (rank.phase != Phase::wait && (!culprit || rank.seconds > culprit->seconds)) culprit = rank;
  }
  if (culprit || !counts_alike) return culprit;
  const auto behind = std::ranges::min_element(ranks, {}, &PresentPhase::step);
  return behind->step < latest ? std::optional(*behind) : std::nullopt;
}

}  // namespace

double notable_wait(double step_ms) {
  const double step = step_ms * 1e-3;
  if (step <= 0) return kNotableBeforeSteps;
  return std::max(kNotable, std::min(kNotableSteps * step, kNotablePart * step + kNotableBehind));
}

double stalled_wait(double step_ms) {
  const double step = step_ms * 1e-3;
  if (step <= 0) return kStallBeforeSteps;
  return std::max(kStall, std::min(kStallSteps * step, step + kStallBehind));
}

std::optional<Standstill> standstill_of(std::span<const PresentPhase> ranks, double step_ms,
                                        bool counts_alike) {
  Standstill still;
  for (const PresentPhase& rank : ranks) {
    if (rank.phase == Phase::evaluation || rank.phase == Phase::checkpoint) return std::nullopt;
    if (rank.phase == Phase::wait) still.seconds = std::max(still.seconds, rank.seconds);
  }
  if (still.seconds < notable_wait(step_ms)) return std::nullopt;
  still.is_stall = still.seconds >= stalled_wait(step_ms);
  still.culprit = culprit_of(ranks, counts_alike);
  return still;
}

}  // namespace rueda
