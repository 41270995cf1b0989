// SPDX-License-Identifier: Apache-2.0
// A generation of an elastic job: which of its workers are there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/rank_set.h"

namespace rueda {

// A process of an elastic job; no two of them ever have the same number. Those of the start are numbered from
// 0.
using Worker = Rank;

// Purpose: who makes up the job from one change to the next. Rank r is the worker with the r-th lowest
// number: ranks keep their order, and the oldest come first. A plain value.
struct Generation {
  std::uint64_t number = 0;
  RankSet workers;
  bool operator==(const Generation&) const = default;

  std::vector<Worker> by_rank() const;
};

// "3 3,1" for the workers 0, 1, 2 and 4: the number of the generation, then how many workers follow one
// another. One number is missing between two such runs, or as many as stand before a '~': "3 4~3,6~2" for 3,
// 4, 5, 12 and 13. So the length grows with the gaps between workers, by few letters each.
std::string to_text(const Generation& generation);
// Nothing where `text` is no generation with a worker.
std::optional<Generation> generation_from(std::string_view text);

}  // namespace rueda
