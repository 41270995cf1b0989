// SPDX-License-Identifier: Apache-2.0
// The backward passes that make up a step.
#pragma once

#include <set>

namespace rueda {

// Purpose: which backward passes of a step run, and how many have ended. A pass inside another (reentrant
// checkpointing) is part of that one. Belongs to a GradientSync, which guards it.
class BackwardPasses {
 public:
  // In a hook: whether the pass that calls it is new.
  bool note(int pass) { return running_.insert(pass).second; }
  // In an action at the end of a pass that was noted.
  void end(int pass, bool inside_another);
  // Whether any runs; whether one beside `pass` does.
  bool running() const { return !running_.empty(); }
  bool running_beside(int pass) const { return running_.size() > running_.count(pass); }
  // How many have ended.
  int ended() const { return ended_; }
  // Whether nothing was heard of the pass that ran around those that were: all parameters are inside of
  // reentrant checkpoints.
  bool unheard() const { return unheard_; }
  void reset() { *this = BackwardPasses(); }

 private:
  std::set<int> running_;
  int ended_ = 0;
  bool unheard_ = false;
};

}  // namespace rueda
