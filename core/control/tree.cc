// SPDX-License-Identifier: Apache-2.0
#include "core/control/tree.h"

#include <algorithm>
#include <cstdint>

namespace rueda::tree {

std::vector<Rank> children(Rank rank, Rank size) {
  std::vector<Rank> result;
  const std::int64_t first = std::int64_t{rank} * kRadix + 1;
  for (std::int64_t child = first; child < std::min<std::int64_t>(first + kRadix, size); ++child) {
    result.push_back(static_cast<Rank>(child));
  }
  return result;
}

// Children of consecutive ranks are consecutive, so each level of a subtree is one range.
RankSet subtree(Rank rank, Rank size) {
  RankSet ranks;
  std::int64_t first = rank, end = std::int64_t{rank} + 1;
  while (first < size) {
    ranks.add(static_cast<Rank>(first), static_cast<Rank>(std::min<std::int64_t>(end, size)));
    first = first * kRadix + 1;
    end = end * kRadix + 1;
  }
  return ranks;
}

}  // namespace rueda::tree
