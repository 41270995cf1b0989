// SPDX-License-Identifier: Apache-2.0
// Which way messages go between the leader of a host and its members, and that they stay in order.
#include "ops/link/tree_transport.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace rueda {
namespace {

// Mail between ranks; what was sent arrives only when the test delivers it.
struct Post {
  std::map<std::pair<Rank, Rank>, std::deque<Bytes>> on_the_way;  // from, to
  std::map<Rank, std::deque<Envelope>> arrived;
  std::vector<Rank> lost;
  std::size_t sent = 0;

  bool deliver(Rank from, Rank to) {
    std::deque<Bytes>& mail = on_the_way[{from, to}];
    if (mail.empty()) return false;
    arrived[to].push_back({from, std::move(mail.front())});
    mail.pop_front();
    return true;
  }
};

class PostTransport final : public Transport {
 public:
  PostTransport(Post& post, Rank rank) : post_(post), rank_(rank) {}
  void send(Rank to, Bytes bytes) override {
    post_.on_the_way[{rank_, to}].push_back(std::move(bytes));
    ++post_.sent;
  }
  std::optional<Envelope> receive() override {
    std::deque<Envelope>& mail = post_.arrived[rank_];
    if (mail.empty()) return std::nullopt;
    Envelope envelope = std::move(mail.front());
    mail.pop_front();
    return envelope;
  }
  std::vector<Rank> lost(Time) override { return post_.lost; }
  bool rings_doorbell() const override { return false; }
  bool quiet() const override { return post_.arrived[rank_].empty(); }

 private:
  Post& post_;
  Rank rank_;
};

Bytes message(int number) { return Bytes(1 + number % 3, static_cast<std::byte>(number)); }

struct World {
  Post far, near;
  std::vector<std::unique_ptr<TreeTransport>> ranks;

  explicit World(Rank size) {
    for (Rank rank = 0; rank < size; ++rank) {
      ranks.push_back(std::make_unique<TreeTransport>(rank, std::make_unique<PostTransport>(far, rank),
                                                      std::make_unique<PostTransport>(near, rank)));
    }
  }
};

// Sends 40 messages each way between ranks 0 and 1, from when the sender has connected, in random
// interleaving.
void check_order(bool leader_maps, bool member_maps, unsigned seed) {
  std::mt19937 random(seed);
  World world(2);
  const bool near = leader_maps && member_maps;
  int sent[2] = {0, 0}, got[2] = {0, 0};
  bool connected[2] = {false, false};
  while (got[0] < 40 || got[1] < 40) {
    const Rank rank = static_cast<Rank>(random() % 2), other = 1 - rank;
    switch (random() % 4) {
      case 0:
        if (!connected[rank]) {
          const bool maps = rank == 0 ? leader_maps : member_maps;
          world.ranks[rank]->connect(
              {{0, 1}, maps ? std::vector<Rank>{0, 1} : std::vector<Rank>{rank}, true});
          connected[rank] = true;
        } else if (sent[rank] < 40) {
          world.ranks[rank]->send(other, message(sent[rank]++));
        }
        break;
      case 1: world.far.deliver(rank, other); break;
      case 2: world.near.deliver(rank, other); break;
      default:
        while (std::optional<Envelope> envelope = world.ranks[rank]->receive()) {
          ASSERT_EQ(envelope->peer, other);
          ASSERT_EQ(envelope->bytes, message(got[other]++)) << "seed " << seed;
        }
    }
  }
  for (Rank rank : {0, 1}) EXPECT_EQ(world.ranks[rank]->rings_doorbell(), near);
  EXPECT_EQ(world.ranks[0]->complete(), near);
  EXPECT_FALSE(world.ranks[1]->complete());
}

TEST(TreeTransport, WhatCameBeforeTheConnectionIsDelivered) {
  World world(2);
  world.ranks[1]->send(0, message(1));
  world.far.deliver(1, 0);
  EXPECT_EQ(world.ranks[0]->receive()->bytes, message(1));
  // The member connects first: its word arrives while the leader is still at the start.
  world.ranks[1]->connect({{0, 1}, {0, 1}, true});
  world.far.deliver(1, 0);
  EXPECT_FALSE(world.ranks[0]->receive());
  world.ranks[0]->connect({{0, 1}, {0, 1}, true});
  EXPECT_TRUE(world.ranks[0]->complete());
}

TEST(TreeTransport, IsQuietOnlyWhereAllThatCanComeIsNear) {
  for (const bool near : {true, false}) {
    World world(2);
    TreeTransport& leader = *world.ranks[0];
    leader.connect({{0, 1}, {0, 1}, true});
    EXPECT_FALSE(leader.quiet()) << "it does not know yet";
    world.ranks[1]->connect({{0, 1}, near ? std::vector<Rank>{0, 1} : std::vector<Rank>{1}, true});
    world.far.deliver(1, 0);
    EXPECT_FALSE(leader.receive());
    EXPECT_EQ(leader.quiet(), near);
    world.near.arrived[0].push_back({1, message(1)});
    EXPECT_FALSE(leader.quiet());
  }
  World hosts(2);
  hosts.ranks[0]->connect({{0}, {0}, false});
  EXPECT_FALSE(hosts.ranks[0]->quiet()) << "others are elsewhere";
}

TEST(TreeTransport, MessagesStayInOrderWhicheverWayIsAgreed) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    check_order(true, true, seed);
    check_order(true, false, seed);
    check_order(false, true, seed);
    check_order(false, false, seed);
  }
}

void exchange_words(World& world) {
  for (int round = 0; round < 3; ++round) {
    for (auto& [ends, mail] : world.far.on_the_way) {
      while (world.far.deliver(ends.first, ends.second)) continue;
    }
    for (auto& rank : world.ranks) EXPECT_FALSE(rank->receive());
  }
}

TEST(TreeTransport, AMemberThatMissesAnotherMemberKeepsTheBackendOut) {
  for (const bool whole : {true, false}) {
    World world(3);
    world.ranks[0]->connect({{0, 1, 2}, {0, 1, 2}, true});
    world.ranks[1]->connect({{0, 1, 2}, {0, 1, 2}, true});
    world.ranks[2]->connect({{0, 1, 2}, whole ? std::vector<Rank>{0, 1, 2} : std::vector<Rank>{0, 2}, true});
    exchange_words(world);
    for (auto& rank : world.ranks) EXPECT_TRUE(rank->rings_doorbell());
    EXPECT_EQ(world.ranks[0]->complete(), whole);
  }
}

TEST(TreeTransport, OtherHostsAreFar) {
  World world(3);
  world.ranks[0]->connect({{0, 1}, {0, 1}, false});
  world.ranks[1]->connect({{0, 1}, {0, 1}, false});
  world.ranks[2]->connect({{2}, {2}, false});
  exchange_words(world);
  EXPECT_FALSE(world.ranks[0]->rings_doorbell());
  EXPECT_FALSE(world.ranks[2]->rings_doorbell());
  EXPECT_FALSE(world.ranks[0]->complete());
  const std::size_t before = world.far.sent;
  world.ranks[0]->send(1, message(1));
  EXPECT_EQ(world.far.sent, before);
  world.ranks[0]->send(2, message(2));
  EXPECT_EQ(world.far.sent, before + 1);
  world.far.deliver(0, 2);
  EXPECT_EQ(world.ranks[2]->receive()->bytes, message(2));
}

// The leader of each host tells rank 0 when all of it is there: once, wherever its members' words come from.
TEST(TreeTransport, RankZeroKnowsWhichHostsShareMemory) {
  for (const bool whole : {true, false}) {
    for (const bool early : {true, false}) {
      World world(5);
      world.ranks[4]->connect({{4}, {4}, false});
      world.ranks[3]->connect({{2, 3}, {2, 3}, false, whole});
      world.ranks[2]->connect({{2, 3}, {2, 3}, false});
      if (early) exchange_words(world);  // before rank 0 has connected
      world.ranks[1]->connect({{0, 1}, {0, 1}, false});
      world.ranks[0]->connect({{0, 1}, {0, 1}, false});
      exchange_words(world);
      EXPECT_TRUE(world.ranks[0]->complete(0));
      EXPECT_EQ(world.ranks[0]->complete(2), whole);
      EXPECT_TRUE(world.ranks[0]->complete(4));
      EXPECT_FALSE(world.ranks[0]->complete(3)) << "no leader";
      EXPECT_FALSE(world.ranks[0]->complete()) << "not one host";
    }
  }
}

TEST(TreeTransport, AHostWithoutSharedMemoryIsNotComplete) {
  World world(3);
  world.ranks[2]->connect({{2}, {}, false});  // RUEDA_SHM=0
  world.ranks[1]->connect({{0, 1}, {}, false});
  world.ranks[0]->connect({{0, 1}, {0}, false});
  exchange_words(world);
  EXPECT_FALSE(world.ranks[0]->complete(0));
  EXPECT_FALSE(world.ranks[0]->complete(2));
}

// A leader's word is no member's reach, and the other way round.
TEST(TreeTransport, WordsThatNobodyShouldSaySayNothing) {
  World world(3);
  world.ranks[0]->connect({{0, 1}, {0, 1}, false});
  for (int word = 0; word < 256; ++word) {
    world.far.on_the_way[{1, 0}].push_back({static_cast<std::byte>(word), std::byte{1}});
    if (word != 3) world.far.on_the_way[{2, 0}].push_back({static_cast<std::byte>(word), std::byte{1}});
  }
  while (world.far.deliver(1, 0) || world.far.deliver(2, 0)) EXPECT_FALSE(world.ranks[0]->receive());
  EXPECT_FALSE(world.ranks[0]->complete(0));  // the first that came was 0: it reaches nobody
  EXPECT_FALSE(world.ranks[0]->complete(1));
  EXPECT_FALSE(world.ranks[0]->complete(2));
}

TEST(TreeTransport, AMemberWhoseLeaderIsNearNeedNotLookFar) {
  for (const bool mapped : {true, false}) {
    World world(4);
    world.ranks[0]->connect({{0, 1, 2}, {0, 1, 2}, false});
    world.ranks[1]->connect({{0, 1, 2}, mapped ? std::vector<Rank>{0, 1} : std::vector<Rank>{1, 2}, false});
    world.ranks[2]->connect({{0, 1, 2}, {0, 1, 2}, false});
    world.ranks[3]->connect({{3}, {3}, false});
    EXPECT_FALSE(world.ranks[1]->rings_doorbell());  // as long as the leader has not answered
    exchange_words(world);
    EXPECT_FALSE(world.ranks[0]->rings_doorbell());
    EXPECT_EQ(world.ranks[1]->rings_doorbell(), mapped);
    EXPECT_TRUE(world.ranks[2]->rings_doorbell());
    world.ranks[0]->send(1, message(1));
    (mapped ? world.near : world.far).deliver(0, 1);
    EXPECT_EQ(world.ranks[1]->receive()->bytes, message(1));
    world.far.lost = {3};  // on the other host, where the doorbell cannot tell
    EXPECT_EQ(world.ranks[1]->lost(clock_now()), std::vector<Rank>{3});
  }
}

TEST(TreeTransport, ALossIsToldOnceWhoeverSeesIt) {
  World world(3);
  world.near.lost = {1};
  EXPECT_EQ(world.ranks[0]->lost(clock_now()), std::vector<Rank>{1});
  world.far.lost = {1, 2};
  EXPECT_EQ(world.ranks[0]->lost(clock_now()), std::vector<Rank>{2});
  EXPECT_TRUE(world.ranks[0]->lost(clock_now()).empty());
}

}  // namespace
}  // namespace rueda
