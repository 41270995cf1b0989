// SPDX-License-Identifier: Apache-2.0
// How ranks begin what is measured at the same time: included by the programs of the peers, too, which link
// nothing of ours.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>

namespace rueda::bench {

// Purpose: lets the ranks of one host begin at one instant of its clock. The last rank at a barrier leaves it
// first, by 0.1 to 0.4 us or more. That rank then waits for the others, and this wait is no part of the
// operation. Each rank proposes an instant, and all await the last one. The side carries the proposals in its
// own way, in place of the barrier. A value of each side of a comparison.
class StartLine {
 public:
  StartLine() = default;  // nobody waits
  // Nor where ranks share the machine's cores, or stand on hosts whose clocks differ.
  StartLine(bool one_host, int ranks) : together_(one_host && ranks <= sysconf(_SC_NPROCESSORS_ONLN)) {}

  std::int64_t proposal() const { return together_ ? now() + kAhead : 0; }  // ns
  // An instant far ahead belongs to another clock, whatever the host's name is: nobody waits.
  static void await(std::int64_t instant) {
    if (instant - now() > 100 * kAhead) return;
    while (now() < instant) continue;
  }

 private:
  static constexpr std::int64_t kAhead = 20'000;  // longer than all take to hear of it

  static std::int64_t now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  bool together_ = false;
};

}  // namespace rueda::bench
