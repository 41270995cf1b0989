// SPDX-License-Identifier: Apache-2.0
#include "core/control/roll_call.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

// Introductions of ranks 0..size-1 over the tree; those in `absent` never come.
std::vector<RollCall> call_the_roll(Rank size, const RankSet& absent, const std::string& odd_version = "1") {
  std::vector<RollCall> nodes;
  for (Rank rank = 0; rank < size; ++rank) {
    nodes.emplace_back(Introduction{rank,
                                    rank == 1 ? odd_version : "1",
                                    "host" + std::to_string(rank / 2),
                                    100 + rank,
                                    {"A=" + std::to_string(rank / 2)}},
                       size);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (Rank rank = 0; rank < size; ++rank) {
      if (absent.contains(rank)) continue;
      for (const Envelope& envelope : nodes[rank].take_outgoing()) {
        moved = true;
        if (!absent.contains(envelope.peer)) nodes[envelope.peer].receive(rank, envelope.bytes);
      }
    }
  }
  return nodes;
}

TEST(RollCall, EveryRankLearnsWhoIsWhere) {
  const std::vector<RollCall> nodes = call_the_roll(70, {});
  for (const RollCall& node : nodes) {
    ASSERT_TRUE(node.welcome() && node.welcome()->status.ok());
    EXPECT_EQ(node.welcome()->hosts[5], "host2");
    EXPECT_EQ(node.welcome()->process_ids[69], 169);
  }
  EXPECT_EQ(nodes[0].differing_settings().size(), 34u);
}

TEST(RollCall, TheMissingAreNamed) {
  RankSet absent = RankSet::of(3);
  absent.add(RankSet::of(40));
  std::vector<RollCall> nodes = call_the_roll(70, absent);
  EXPECT_FALSE(nodes[0].welcome());
  nodes[0].expire(30);
  EXPECT_EQ(nodes[0].welcome()->status.code, StatusCode::peer_lost);
  EXPECT_NE(nodes[0].welcome()->status.message.find("ranks 3, 40 of 70"), std::string::npos)
      << nodes[0].welcome()->status.message;
}

TEST(RollCall, AnotherVersionIsRefusedEverywhere) {
  for (const RollCall& node : call_the_roll(3, {}, "2")) {
    EXPECT_EQ(node.welcome()->status.code, StatusCode::mismatch);
    EXPECT_NE(node.welcome()->status.message.find("rank 1 on host0 runs Rueda 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace rueda
