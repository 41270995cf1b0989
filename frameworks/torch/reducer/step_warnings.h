// SPDX-License-Identifier: Apache-2.0
// Warnings on a step that is odd but no error, told once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/topology.h"

namespace rueda {

// Purpose: the warnings of one StepReduction, and which of them it has given. Belongs to it; guarded with it.
class StepWarnings {
 public:
  // Names of the parameters.
  explicit StepWarnings(std::vector<std::string> names) : names_(std::move(names)), told_(names_.size()) {}

  // Backward passes went unheard, `passes` are assumed. Told every time.
  static void lost_hooks(Rank rank, int passes);
  // A step after fewer passes than it should have.
  void early(Rank rank, int passes, int of);
  // No gradient here for these parameters, but on other ranks. Told once for each.
  void missing(Rank rank, const std::vector<std::size_t>& parameters);
  // A reduction that a backward pass should have waited for, and could not.
  void late_reduction(Rank rank);
  // No gradient on any rank.
  void nothing(Rank rank);

 private:
  const std::vector<std::string> names_;
  std::vector<bool> told_;
  bool told_early_ = false;
  bool told_late_ = false;
  bool told_nothing_ = false;
};

}  // namespace rueda
