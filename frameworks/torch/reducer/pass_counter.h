// SPDX-License-Identifier: Apache-2.0
// The backward passes that make up a step.
#pragma once

#include <map>
#include <memory>

namespace rueda {

// Purpose: which backward passes of a step run, have failed, and how many have ended. A pass inside another
// (reentrant checkpointing) is part of that one. Belongs to StepPasses; guarded with them.
class PassCounter {
 public:
  // In a hook: if the pass that calls it is new, returns a token that must live as long as that pass, and no
  // longer; else null. A pass whose token is gone before end() has failed.
  std::shared_ptr<const void> note(int pass);
  // In an action at the end of a pass that was noted.
  void end(int pass, bool inside_another);
  // Whether any runs; whether one beside `pass` does.
  bool running() const { return running_beside(-1); }
  bool running_beside(int pass) const;
  // Whether one has failed since reset().
  bool failed() const;
  // How many have ended.
  int ended() const { return ended_; }
  // True if only inner passes were counted, and none runs. All parameters are then inside of reentrant
  // checkpoints.
  bool unheard() const { return unheard_; }
  void reset() { *this = PassCounter(); }

 private:
  std::map<int, std::weak_ptr<const void>> begun_;  // that have not ended
  int ended_ = 0;
  bool unheard_ = false;
};

}  // namespace rueda
