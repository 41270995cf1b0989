// SPDX-License-Identifier: Apache-2.0
// Which rank has the state that all go on from.
#pragma once

#include <cstdint>
#include <vector>

#include "rueda/types.h"

namespace rueda::elastic {

// Of one rank's state.
enum class Condition : std::uint8_t {
  whole,  // that of its last commit
  ahead,  // an optimizer has stepped since, and nothing was kept to undo the step
  fresh,  // of a process that has not been given the state of the job yet
  torn,   // partly overwritten: a synchronisation has failed in its midst
};

// The words of a rank on its state.
struct Report {
  std::int64_t commits = 0;
  Condition condition = Condition::fresh;
  bool as_committed = false;  // nothing has changed since its last commit, as far as Rueda knows
};

struct Choice {
  Rank source = 0;      // all get the state of this rank
  bool needed = false;  // the state of some other rank differs from it
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Chooses the lowest rank with the most commits among those with a whole state. Without any, it chooses among
// those ahead, and else rank 0 if all are fresh. The same on every rank. Throws InvalidArgument if training
// cannot go on from any state.
Choice choose(const std::vector<Report>& reports);

}  // namespace rueda::elastic
