// SPDX-License-Identifier: Apache-2.0
// The shape of the control tree. Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rueda/rank_set.h"

namespace rueda {

// Purpose: one rank's node of a tree whose root is rank 0. A plain value.
struct TreeNode {
  Rank rank = 0;
  Rank parent = 0;                      // of rank 0: itself
  std::vector<Rank> children;           // ascending
  std::vector<RankSet> child_subtrees;  // one for each child
  RankSet subtree;                      // the rank, its children, and theirs
};

namespace tree {

// A node has at most so many children on other hosts.
inline constexpr Rank kRadix = 32;

// By rank number alone: this serves before anybody knows which ranks share a host. With a radix of `size` all
// others are children of rank 0.
TreeNode by_rank(Rank rank, Rank size, Rank radix = kRadix);

// Ranks of a host under its lowest rank, the leader, and leaders under a tree of radix kRadix. `hosts` tells
// the host of each rank.
TreeNode by_host(Rank rank, std::span<const std::string> hosts);

// The parent of each rank in that tree; rank 0 is its own.
std::vector<Rank> parents_by_host(std::span<const std::string> hosts, Rank radix = kRadix);

// The nodes of every rank at once, for simulations.
std::vector<TreeNode> all_by_host(std::span<const std::string> hosts, Rank radix = kRadix);

}  // namespace tree
}  // namespace rueda
