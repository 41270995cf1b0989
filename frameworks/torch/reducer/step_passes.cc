// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/step_passes.h"

#include <algorithm>

#include "frameworks/torch/reducer/gradient_options.h"

namespace rueda {

StepPasses::StepPasses(const DistributedOptions& options)
    : per_step_(passes_of(options)),
      sum_(options.sum_passes),
      in_backward_(synchronizes_in_backward(options)) {}

int StepPasses::number() const { return std::min(counter_.ended(), per_step_ - 1); }

bool StepPasses::goes_on() const {
  return !counter_.running() && counter_.ended() > 0 && counter_.ended() < per_step_;
}

bool StepPasses::ends_step() const {
  return in_backward_ && !counter_.running() && counter_.ended() >= per_step_;
}

// Without a counted pass the gradients come from elsewhere: set by hand, or by passes with lost hooks.
double StepPasses::correction() const {
  if (sum_) return 1.0;
  const bool unheard = hooks_lost_ || counter_.unheard();
  const int passes = counter_.ended() > 0 ? counter_.ended() : (unheard ? per_step_ : 1);
  return passes < per_step_ ? static_cast<double>(per_step_) / passes : 1.0;
}

double StepPasses::local_factor() const { return sum_ ? 1.0 : correction() / per_step_; }

void StepPasses::warn(StepWarnings& warnings, Rank rank) const {
  if (missed_end()) warnings.late_reduction(rank);
  if (hooks_lost_ && (per_step_ > 1 || in_backward_)) return StepWarnings::lost_hooks(rank, per_step_);
  const int passes = counter_.ended();
  if (passes > 0 && passes < per_step_) warnings.early(rank, passes, per_step_);
}

void StepPasses::reset() {
  counter_.reset();
  hooks_lost_ = false;
}

}  // namespace rueda
