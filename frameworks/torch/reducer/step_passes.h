// SPDX-License-Identifier: Apache-2.0
// How many backward passes a step has, and has had.
#pragma once

#include "core/base/topology.h"
#include "frameworks/torch/reducer/pass_counter.h"
#include "frameworks/torch/reducer/step_warnings.h"
#include "rueda/torch/reducer/distributed_options.h"

namespace rueda {

// Purpose: compares the passes of a step with those that it should have: finds the last one, and the factor
// for a mean over them. Belongs to a GradientSync, which guards it.
class StepPasses {
 public:
  explicit StepPasses(const DistributedOptions& options);

  PassCounter& counter() { return counter_; }
  const PassCounter& counter() const { return counter_; }

  // +1: passes do not count from here on, until as many times -1.
  void pause(int change) { pauses_ += change; }
  bool paused() const { return pauses_ > 0; }
  // The number in its step of the pass that runs, from 0; whether it is the last.
  int number() const;
  bool in_last() const { return counter_.ended() + 1 >= per_step_; }
  // Whether passes of the step have ended, none runs, and more are to come.
  bool goes_on() const;
  // Whether a pass that has just ended is the last of a step that is reduced in it.
  bool ends_step() const;
  // Whether nothing was heard of a pass that should have reduced the step in it.
  bool missed_end() const { return in_backward_ && counter_.unheard(); }
  // Hooks have been lost: passes may have gone uncounted.
  void note_lost_hooks() { hooks_lost_ = true; }

  // The factor that makes gradients that are divided by the passes of a whole step a mean over those of this
  // rank.
  double correction() const;
  // The factor that gives the sum over this rank's passes the scale of a reduction's result.
  double local_factor() const;
  // Tells of a step that has not had its passes.
  void warn(StepWarnings& warnings, Rank rank) const;
  int per_step() const { return per_step_; }
  // The step is over.
  void reset();

 private:
  const int per_step_;
  const bool sum_;          // gradients are the sum over passes, not the mean
  const bool in_backward_;  // the last pass of a step reduces its gradients
  PassCounter counter_;
  int pauses_ = 0;
  bool hooks_lost_ = false;  // in this step
};

}  // namespace rueda
