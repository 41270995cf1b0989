// SPDX-License-Identifier: Apache-2.0
// How ranks begin what is measured at the same time: included by the programs of the peers, too, which link
// nothing of ours.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>

namespace rueda::bench {

// Purpose: lets the ranks of one host begin at one instant of its clock. Who comes last to a barrier leaves
// it first, by what a word takes from core to core (0.1 to 0.4 us) or more, and then waits for the others,
// which is no part of the operation. Each rank proposes an instant, all await the last one of them; how it
// gets round is the side's own matter, and stands in for the barrier. A value of each side of a comparison.
class StartLine {
 public:
  StartLine() = default;  // nobody waits
  // Nor where ranks share the machine's cores, or stand on hosts whose clocks differ.
  StartLine(bool one_host, int ranks) : together_(one_host && ranks <= sysconf(_SC_NPROCESSORS_ONLN)) {}

  std::int64_t proposal() const { return together_ ? now() + kAhead : 0; }  // ns
  // What lies far ahead is of another clock, whatever the host's name says.
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
