// SPDX-License-Identifier: Apache-2.0
// How the background thread waits before it sleeps.
#pragma once

#include <utility>

#include "core/base/time.h"
#include "core/engine/wait/adaptive_spin.h"

namespace rueda {

// Purpose: after a move the background thread looks again, for as long as AdaptiveSpin says, whether there is
// more to do. While other ranks are waited for the first looks follow at once, unless that is in vain: to
// give the core away takes as long as a small operation, and who gets it mostly waits for us. Then others run
// between looks. Belongs to whoever has the background thread's turn.
class SpinPolicy {
 public:
  static constexpr int kLooks = 128;       // at once, some 10 us: each rank of the host has a core
  static constexpr int kLooksOfMany = 32;  // it has none: a rank that is waited for may need this one

  explicit SpinPolicy(Duration longest, int looks_at_once = kLooks)
      : busy_(longest), idle_(longest), looks_(looks_at_once) {}

  void begin(Time now) { last_move_ = now; }
  // Whether to look on without sleeping.
  bool goes_on(Time now) const { return now - last_move_ < poll_for_; }
  Duration since_move(Time now) const { return now - last_move_; }

  // `busy`: what is waited for now is other ranks, not this rank's next submission.
  void moved(Time now, bool busy) {
    if (polled_ && at_once_ > 0) haste_.ended(true);
    end(true);
    last_move_ = now;
    at_once_ = busy && haste_.next() > Duration::zero() ? looks_ : 0;
    current_ = busy ? &busy_ : &idle_;
    poll_for_ = current_->next();
  }
  // After a look in vain: whether others run before the next one.
  bool in_vain() {
    polled_ = true;
    if (at_once_ == 0) return true;
    if (--at_once_ == 0) haste_.ended(false);
    return false;
  }
  void give_up() { end(false); }

 private:
  void end(bool helped) {
    if (std::exchange(polled_, false)) current_->ended(helped);
  }

  Time last_move_{};
  AdaptiveSpin busy_;
  AdaptiveSpin idle_;
  AdaptiveSpin* current_ = &busy_;
  AdaptiveSpin haste_{Duration(1)};  // whether to look at once
  Duration poll_for_{};              // after the last move
  int looks_;                        // at once
  int at_once_ = 0;                  // of these, that are left
  bool polled_ = false;              // since the last move
};

}  // namespace rueda
