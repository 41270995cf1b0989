// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/what_if.h"

#include <algorithm>

#include "launcher/view/lateness.h"

namespace rueda {
namespace {

constexpr std::size_t kMostParts = 1 << 16;  // of the steps that are replayed
constexpr std::size_t kMostSteps = 500;

double own_time(const CommonWait& wait, std::size_t rank) {
  const WaitPart& part = wait.parts[rank];
  return static_cast<double>(part.own_ns == WaitPart::kUnknown ? 0 : part.own_ns);
}

double median_of_others(const CommonWait& wait, std::size_t rank) {
  std::vector<double> others;
  for (std::size_t other = 0; other < wait.parts.size(); ++other)
    if (other != rank && wait.parts[other].is_there) others.push_back(own_time(wait, other));
  return median_or_zero(std::move(others));
}

// The time of all waits from `first` on. `replaced`: the rank with the own times of the others; -1: none.
double replay(const std::deque<CommonWait>& waits, std::size_t first, int replaced) {
  std::vector<double> free_at;  // by rank: the end of its wait before
  double end = 0;
  for (std::size_t i = first; i < waits.size(); ++i) {
    const CommonWait& wait = waits[i];
    free_at.resize(std::max(free_at.size(), wait.parts.size()), end);
    double last = 0, last_in_truth = 0;
    for (std::size_t rank = 0; rank < wait.parts.size(); ++rank) {
      const WaitPart& part = wait.parts[rank];
      if (!part.is_there) continue;
      const bool is_replaced = static_cast<int>(rank) == replaced;
      const double own = is_replaced ? median_of_others(wait, rank) : own_time(wait, rank);
      last = std::max(last, free_at[rank] + own);
      last_in_truth = std::max(last_in_truth, static_cast<double>(part.arrival_ns));
    }
    for (std::size_t rank = 0; rank < wait.parts.size(); ++rank) {
      const WaitPart& part = wait.parts[rank];
      if (!part.is_there) continue;
      free_at[rank] = last + std::max(0.0, static_cast<double>(part.release_ns) - last_in_truth);
      end = std::max(end, free_at[rank]);
    }
  }
  return end;
}

}  // namespace

WhatIf without_lateness(const std::deque<CommonWait>& waits, int rank, std::uint64_t since_step) {
  if (waits.empty()) return {rank, 0};
  const auto since = std::ranges::lower_bound(waits, since_step, {}, &CommonWait::step);
  const std::size_t most = std::clamp(kMostParts / waits.back().parts.size(), kRecentSteps, kMostSteps);
  const std::size_t steps = std::clamp(static_cast<std::size_t>(waits.end() - since), kRecentSteps, most);
  const std::size_t first = first_of_last_steps(waits, steps);
  const double before = replay(waits, first, -1), after = replay(waits, first, rank);
  return {rank, before > 0 && after > 0 ? 100 * (before / after - 1) : 0};
}

}  // namespace rueda
