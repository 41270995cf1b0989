// SPDX-License-Identifier: Apache-2.0
#include "core/control/bootstrap/bootstrap.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rueda {
namespace {

void pass_messages(std::vector<Bootstrap>& nodes, const RankSet& absent) {
  for (bool moved = true; moved;) {
    moved = false;
    for (Rank rank = 0; rank < static_cast<Rank>(nodes.size()); ++rank) {
      if (absent.contains(rank)) continue;
      for (const Envelope& envelope : nodes[rank].take_outgoing()) {
        moved = true;
        if (!absent.contains(envelope.peer)) nodes[envelope.peer].receive(rank, envelope.bytes);
      }
    }
  }
}

// Introductions of ranks 0..size-1 over the tree; those in `absent` never come.
std::vector<Bootstrap> call_the_roll(Rank size, const RankSet& absent, const std::string& odd_version = "1") {
  std::vector<Bootstrap> nodes;
  for (Rank rank = 0; rank < size; ++rank) {
    nodes.emplace_back(Introduction{rank,
                                    rank == 1 ? odd_version : "1",
                                    "host" + std::to_string(rank / 2),
                                    100 + rank,
                                    {"A=" + std::to_string(rank / 2)},
                                    "card" + std::to_string(rank),
                                    "",
                                    static_cast<std::uint64_t>(rank % 7),
                                    "",
                                    -1,
                                    static_cast<std::uint64_t>(1000 - rank % 9)},
                       size);
  }
  pass_messages(nodes, absent);
  return nodes;
}

TEST(Bootstrap, EveryRankLearnsWhoIsWhere) {
  const std::vector<Bootstrap> nodes = call_the_roll(70, {});
  for (const Bootstrap& node : nodes) {
    ASSERT_TRUE(node.welcome() && node.welcome()->status.ok());
    EXPECT_EQ(node.welcome()->hosts[5], "host2");
    EXPECT_EQ(node.welcome()->process_ids[69], 169);
    EXPECT_EQ(node.welcome()->peer_infos[68], "card68");
    EXPECT_EQ(node.welcome()->job, 6u);
    EXPECT_EQ(node.welcome()->steps, 1000u);
  }
  EXPECT_EQ(nodes[0].differing_settings().size(), 34u);
}

TEST(Bootstrap, TheMissingAreNamed) {
  RankSet absent = RankSet::of(3);
  absent.add(RankSet::of(40));
  std::vector<Bootstrap> nodes = call_the_roll(70, absent);
  EXPECT_FALSE(nodes[0].welcome());
  nodes[0].expire(30);
  EXPECT_EQ(nodes[0].welcome()->status.code, StatusCode::peer_lost);
  EXPECT_NE(nodes[0].welcome()->status.message.find("ranks 3, 40 of 70"), std::string::npos)
      << nodes[0].welcome()->status.message;
}

// Each rank reaches rank 0 only, except to take the Welcome.
class Referrals : public testing::Test {
 protected:
  static constexpr Rank kSize = 200;  // on 100 hosts

  explicit Referrals(Rank without_relay = -1) {
    for (Rank rank = 0; rank < kSize; ++rank) {
      Introduction own{rank, "1", "host" + std::to_string(rank / 2), rank, {}, "card"};
      if (rank != 0 && rank != without_relay) own.relay = "relay" + std::to_string(rank);
      nodes.emplace_back(own, kSize, RankLists{}, kSize);
    }
    pass_introductions();
  }

  void pass_introductions() {
    for (Rank rank = 1; rank < kSize; ++rank) {
      for (const Envelope& envelope : nodes[rank].take_outgoing())
        nodes[envelope.peer].receive(rank, envelope.bytes);
    }
  }

  // Of all that the ranks send from now on.
  std::vector<std::size_t> pass_welcome() {
    std::vector<std::size_t> bytes(kSize);
    std::vector<Rank> speaking{0};
    for (std::size_t i = 0; i < speaking.size(); ++i) {
      for (const Envelope& envelope : nodes[speaking[i]].take_outgoing()) {
        bytes[speaking[i]] += envelope.bytes.size();
        nodes[envelope.peer].receive(speaking[i], envelope.bytes);
        if (const auto referral = nodes[envelope.peer].take_referral()) {
          EXPECT_EQ(referral->relay, "relay" + std::to_string(referral->to));
          referred.add(RankSet::of(envelope.peer));
        } else {
          speaking.push_back(envelope.peer);
        }
      }
    }
    EXPECT_EQ(speaking.size(), static_cast<std::size_t>(kSize));  // each once
    return bytes;
  }

  std::vector<Bootstrap> nodes;
  RankSet referred;
};

TEST_F(Referrals, TheListLeavesRankZeroForItsChildrenOnly) {
  const std::vector<std::size_t> bytes = pass_welcome();
  for (const Bootstrap& node : nodes) {
    ASSERT_TRUE(node.welcome());
    EXPECT_EQ(*node.welcome(), *nodes[0].welcome());
  }
  const std::size_t list = encode(*nodes[0].welcome()).size();
  // Its own host's other rank, and the leaders of 32 hosts.
  EXPECT_EQ(referred.count(), kSize - 1 - 33);
  EXPECT_LT(bytes[0], 33 * list + static_cast<std::size_t>(kSize) * 50);
  EXPECT_EQ(bytes[2], (1 + tree::kRadix) * list);
  EXPECT_EQ(bytes[3], 0u);
}

TEST_F(Referrals, ARankThatWaitsForTheListNamesTheRankThatHasIt) {
  const std::vector<Envelope> words = nodes[0].take_outgoing();
  nodes[3].receive(0, std::ranges::find(words, 3, &Envelope::peer)->bytes);
  nodes[3].expire(33, "10.0.0.2:4242: Connection refused");
  EXPECT_EQ(nodes[3].welcome()->status.message,
            "init: rank 2 did not pass the list of ranks on to rank 3 within 33 s (10.0.0.2:4242: Connection "
            "refused). Let each rank reach the others, or allow more time by RUEDA_START_TIMEOUT.");
}

TEST_F(Referrals, AStartThatFailsNeedsNoRelay) {
  std::vector<Bootstrap> fresh;
  std::swap(nodes, fresh);
  for (Rank rank = 0; rank < kSize; ++rank)
    nodes.emplace_back(
        Introduction{
            rank, rank == 7 ? "2" : "1", "host" + std::to_string(rank), rank, {}, "", "", 0, "relay"},
        kSize, RankLists{}, kSize);
  pass_introductions();
  pass_welcome();
  EXPECT_TRUE(referred.empty());
  for (const Bootstrap& node : nodes) EXPECT_EQ(node.welcome()->status.code, StatusCode::mismatch);
}

class OneWithoutRelay : public Referrals {
 protected:
  OneWithoutRelay() : Referrals(2) {}
};

TEST_F(OneWithoutRelay, RankZeroGivesTheListToThoseBelowARankThatCannotRelay) {
  pass_welcome();
  EXPECT_FALSE(referred.contains(3));
  for (const Bootstrap& node : nodes) EXPECT_EQ(*node.welcome(), *nodes[0].welcome());
}

// Ranks 0..size-1, of which each gives its own lists to init().
std::vector<Status> start_with(const std::vector<RankLists>& lists) {
  const Rank size = static_cast<Rank>(lists.size());
  std::vector<Bootstrap> nodes;
  for (Rank rank = 0; rank < size; ++rank)
    nodes.emplace_back(Introduction{rank, "1", "host", 1, {}, ""}, size, lists[rank]);
  pass_messages(nodes, {});
  std::vector<Status> statuses;
  for (const Bootstrap& node : nodes) statuses.push_back(node.welcome()->status);
  return statuses;
}

TEST(Bootstrap, ProcessSetsMustBeTheSameEverywhere) {
  const RankLists usual{{0, 1}, {2}};
  for (const Status& status : start_with({usual, {{1, 0}, {2}}, usual})) EXPECT_EQ(status, Status());
  for (const Status& status : start_with({usual, {}, usual, {{2}, {0, 1}}})) {
    EXPECT_EQ(status,
              Status::mismatch("init: the ranks differ in their process sets: ranks 0, 2 gave [0-1], [2]; "
                               "rank 3 gave [2], [0-1]; rank 1 gave none. Give the same lists in the same "
                               "order on every rank."));
  }
  std::vector<RankLists> all_differ(70);
  for (Rank rank = 0; rank < 70; ++rank) all_differ[rank] = {{rank}};
  for (const Status& status : start_with(all_differ)) {
    EXPECT_EQ(status.code, StatusCode::mismatch);
    EXPECT_NE(status.message.find("; and 66 others."), std::string::npos) << status.message;
  }
}

TEST(Bootstrap, ImpossibleProcessSetsAreRefusedEverywhere) {
  for (const Status& status : start_with({{{0, 3}}, {{0, 3}}, {{0, 3}}}))
    EXPECT_EQ(status, check_static_sets({{0, 3}}, 3));
}

TEST(Bootstrap, AnotherVersionIsRefusedEverywhere) {
  for (const Bootstrap& node : call_the_roll(3, {}, "2")) {
    EXPECT_EQ(node.welcome()->status.code, StatusCode::mismatch);
    EXPECT_NE(node.welcome()->status.message.find("rank 1 on host0 runs Rueda 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace rueda
