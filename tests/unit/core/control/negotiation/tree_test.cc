// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rueda {
namespace {

// Every rank but 0 is the child of its parent, and a subtree is a rank and its children's subtrees.
void expect_tree(const std::vector<TreeNode>& nodes) {
  const Rank size = static_cast<Rank>(nodes.size());
  EXPECT_EQ(nodes[0].subtree, RankSet(0, size));
  Rank children = 0;
  for (const TreeNode& node : nodes) {
    RankSet below = RankSet::of(node.rank);
    ASSERT_TRUE(std::ranges::is_sorted(node.children));
    ASSERT_EQ(node.children.size(), node.child_subtrees.size());
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const TreeNode& child = nodes[node.children[i]];
      EXPECT_EQ(child.parent, node.rank);
      EXPECT_EQ(child.subtree, node.child_subtrees[i]);
      below.add(child.subtree);
      ++children;
    }
    EXPECT_EQ(below, node.subtree);
  }
  EXPECT_EQ(children, size - 1);
}

TEST(Tree, ByRankIsATree) {
  std::vector<TreeNode> nodes;
  for (Rank rank = 0; rank < 5000; ++rank) nodes.push_back(tree::by_rank(rank, 5000));
  expect_tree(nodes);
}

TEST(Tree, ByHostPutsRanksUnderTheLeaderOfTheirHost) {
  std::vector<std::string> hosts;
  for (Rank rank = 0; rank < 3000; ++rank) hosts.push_back("host" + std::to_string(rank * 7 / 30));  // uneven
  const std::vector<TreeNode> nodes = tree::all_by_host(hosts, 4);
  expect_tree(nodes);
  for (const TreeNode& node : nodes) {
    const bool leader = node.rank == 0 || hosts[node.rank - 1] != hosts[node.rank];
    if (!leader) {
      EXPECT_EQ(hosts[node.parent], hosts[node.rank]);
      EXPECT_TRUE(node.children.empty());
    }
    const auto others =
        std::ranges::count_if(node.children, [&](Rank child) { return hosts[child] != hosts[node.rank]; });
    EXPECT_LE(others, 4);
  }
}

TEST(Tree, RanksOfAHostNeedNotBeNeighbours) {
  std::vector<std::string> hosts;
  for (Rank rank = 0; rank < 200; ++rank) hosts.push_back("host" + std::to_string(rank % 7));
  expect_tree(tree::all_by_host(hosts, 2));
  EXPECT_EQ(tree::by_host(14, hosts).parent, 0);
  EXPECT_EQ(tree::by_host(16, hosts).parent, 2);
}

}  // namespace
}  // namespace rueda
