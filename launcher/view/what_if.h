// SPDX-License-Identifier: Apache-2.0
// How much faster the job would be without the lateness of one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "launcher/view/step_times.h"

namespace rueda {

struct WhatIf {
  int rank = 0;
  double faster_percent = 0;  // more steps in the same time
};

// A rank is late from a step on.
struct LateSince {
  int rank = 0;
  std::uint64_t step = 0;
};

// Purpose: replays the steps since a moment, 5 at least and 500 at most: pauses may be rare. Each rank does
// its own work, arrives, waits for the last one, and goes on after its moves. A second time nobody waits for
// the late rank. A long wait makes the work after it slower, as caches and cores cool down. So the second
// time work and moves take as long as before the moment, if at least 20 steps before have been seen, and the
// difference is beyond chance. That makes no step shorter than the steps before the moment. Moves that have
// become far longer have another reason, as a slow card, and stay. Pure.
// Owned by the main thread of the supervisor.
class WhatIfs {
 public:
  // Those that are late now, the latest first; 16 are replayed.
  std::vector<WhatIf> replay(const std::deque<CommonWait>& waits, std::span<const LateSince> late);

 private:
  struct Typical {
    double mean = 0, error = 0;
  };
  // The usual times in some steps, in ns: means over the steps of the median of the other ranks.
  struct Usual {
    Typical own{}, moves{};
    Typical between_ends{};  // of one wait and the next
  };
  struct Share {
    double own = 1, moves = 1;
    double least = 0;  // ns from wait to wait, as before the moment

    bool makes_faster() const { return own < 1 || moves < 1; }
  };
  struct Before {
    std::uint64_t moment = 0;  // a step
    Usual usual{};             // of the steps before
    int punctual = 0;          // calls in a row
  };

  static Typical typical_of(std::vector<double> values);
  static double share_of(const Typical& before, const Typical& now);
  // Of the last of these waits, for all ranks but this one.
  static Usual usual_of(const std::deque<CommonWait>& waits, std::size_t begin, std::size_t end, int rank);
  void remember(const std::deque<CommonWait>& waits, std::size_t moment, int rank);
  void forget(std::span<const LateSince> late);
  // The same as a part of what it is in the last steps.
  Share share_of_now(const std::deque<CommonWait>& waits, std::size_t first, int rank) const;

  std::map<int, Before> before_;  // by rank
};

}  // namespace rueda
