// SPDX-License-Identifier: Apache-2.0
// Plans that have failed on some rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "core/control/messages/control_message.h"

namespace rueda {

// Purpose: remembers which Plans have failed, so that a subtree sends one Abort for each. All ranks may fail
// in the same Plan. Owned by a Negotiator.
class PlanAborts {
 public:
  // Whether that is the first this node hears of it. Of Plans older than the last that failed, an Abort may
  // be told twice, which does no harm.
  bool first(std::uint64_t plan) {
    constexpr std::size_t kRemembered = 1024;
    const bool first = known_.insert(plan).second;
    if (known_.size() > kRemembered) known_.erase(known_.begin());
    return first;
  }
  // For this rank's engine.
  void add(Abort abort) { aborts_.push_back(std::move(abort)); }
  std::vector<Abort> take() { return std::exchange(aborts_, {}); }

 private:
  std::set<std::uint64_t> known_;  // the latest of them
  std::vector<Abort> aborts_;
};

}  // namespace rueda
