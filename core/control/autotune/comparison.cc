// SPDX-License-Identifier: Apache-2.0
#include "core/control/autotune/comparison.h"

#include <algorithm>

#include "core/base/median.h"

namespace rueda {
namespace {

constexpr int kMostAlternations = 15;  // while it is not clear

// How many of the alternations must be better by more than kBetter so that chance is not the reason.
int needed(int alternations) { return alternations == 5 ? 5 : alternations == 10 ? 9 : 13; }

}  // namespace

int Comparison::add(double seconds) {
  std::vector<double>& samples = of_base() ? base_ : candidate_;
  samples.push_back(seconds);
  return static_cast<int>(samples.size());
}

std::optional<Comparison::Verdict> Comparison::verdict() const {
  const auto alternations = static_cast<int>(candidate_.size());
  if (!of_base() || alternations == 0 || alternations % kAlternations != 0) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < candidate_.size(); ++i) ratios.push_back(candidate_[i] / base_[i]);
  const auto better = std::ranges::count_if(ratios, [](double ratio) { return ratio < 1 - kBetter; });
  const double gain = 1 - median_of(ratios);
  // Five may all be better by chance; then no sample of the base may be as quick as one of the candidate.
  const bool apart = std::ranges::max(candidate_) < std::ranges::min(base_);
  const bool wins =
      gain > kBetter && better >= needed(alternations) && (alternations > kAlternations || apart);
  if (!wins && gain > kBetter && alternations < kMostAlternations) return std::nullopt;
  return Verdict{wins, gain, static_cast<int>(better), alternations, median_of(candidate_), median_of(base_)};
}

}  // namespace rueda
