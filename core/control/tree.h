// SPDX-License-Identifier: Apache-2.0
// The shape of the control tree: rank 0 is the root and a node has at most kRadix children. Pure functions.
#pragma once

#include <vector>

#include "core/base/rank_set.h"

namespace rueda::tree {

inline constexpr Rank kRadix = 32;

inline Rank parent(Rank rank) { return (rank - 1) / kRadix; }
std::vector<Rank> children(Rank rank, Rank size);
RankSet subtree(Rank rank, Rank size);  // the rank, its children, and theirs

}  // namespace rueda::tree
