// SPDX-License-Identifier: Apache-2.0
// The length of evaluations and checkpoints, which others may wait for.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/observe/training/training_page.h"

namespace rueda {

// Purpose: how long evaluations and checkpoints take on one rank. Pure.
class UsualPauses {
 public:
  // One has ended. Other phases do not count.
  void add(Phase phase, double seconds) {
    if (!is_pause(phase)) return;
    Sum& sum = sums_[static_cast<std::size_t>(phase)];
    ++sum.count;
    sum.seconds += seconds;
  }
  // Seconds. One that takes longer is a stall.
  double limit(Phase phase) const {
    const Sum& sum = sums_[static_cast<std::size_t>(phase)];
    return sum.count == 0 ? kLongest : std::max(kLongest, kUsual * sum.seconds / sum.count);
  }

 private:
  struct Sum {
    int count = 0;
    double seconds = 0;
  };
  static constexpr double kLongest = 60, kUsual = 10;  // seconds; times the usual length

  std::array<Sum, kPhaseCount> sums_{};
};

}  // namespace rueda
