// SPDX-License-Identifier: Apache-2.0
// The moments at which something is to be told of late ranks.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "launcher/view/lateness.h"

namespace rueda {

// Purpose: hears each analysis of a job, and tells of a late rank once: as soon as two analyses in a row
// agree on its moment and size. It tells again if the size has become more than twice as large, or less than
// half. A rank that has been punctual for a while is forgotten. Pure. Owned by the main thread of the
// supervisor.
class Stragglers {
 public:
  struct News {
    LateRank late;
    bool is_change = false;  // of its size
  };

  std::vector<News> hear(const Lateness& lateness);

 private:
  struct Spell {
    LateRank before;
    std::optional<double> told_ms;
    int punctual = 0;  // analyses in a row
  };

  std::map<int, Spell> spells_;  // by rank
};

}  // namespace rueda
