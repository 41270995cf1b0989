// SPDX-License-Identifier: Apache-2.0
// Process sets, groups and join, in simulation.
#include "core/control/negotiation/process_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/control/messages/message_pair.h"
#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

// --- Process sets.

Request add_set(const RankSet& members, int number) {
  Request request = request_for("process_set.add." + std::to_string(number), {0});
  request.operation = Operation::add_process_set;
  request.members = members;
  return request;
}

Request in_set(ProcessSetId set, const std::string& name) {
  Request request = request_for(name);
  request.process_set = set;
  return request;
}

TEST(ProcessSetProtocol, MembersAloneAgree) {
  ControlWorld world(20, 43);
  RankSet evens;
  for (Rank rank = 0; rank < 20; rank += 2) evens.add(RankSet::of(rank));
  world.submit_everywhere(add_set(evens, 0));
  world.settle();
  ASSERT_EQ(world.plans(19).size(), 1u);
  EXPECT_EQ(world.plans(19)[0].result, 1);
  for (int round = 0; round < 3; ++round) {
    for (Rank rank = 0; rank < 20; rank += 2) world.submit(rank, in_set(1, "x"));
    world.settle();
    ASSERT_EQ(world.plans(19).size(), 2u + round);
    EXPECT_EQ(*world.plans(19).back().members, evens);
  }
  // The same name in two sets is two operations.
  for (Rank rank = 0; rank < 20; rank += 2) world.submit(rank, in_set(1, "x"));
  world.submit_everywhere(request_for("x"));
  world.settle();
  EXPECT_EQ(world.plans(7).size(), 6u);
  world.expect_same_plans();
}

Request message(MessagePair pair, const std::string& name, Shape shape = {4}) {
  Request request = request_for(name, std::move(shape));
  request.operation = Operation::message;
  request.process_set = pair.id();
  request.root = pair.source;
  return request;
}

TEST(ProcessSetProtocol, MessagesNeedNoOtherRank) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    ControlWorld world(9, seed, {.ranks_per_host = 2, .radix = 2});
    const std::vector<MessagePair> pairs{{0, 8}, {8, 0}, {3, 4}, {7, 2}, {5, 6}};
    for (int round = 0; round < 3; ++round) {
      for (const MessagePair& pair : pairs) {
        world.submit(pair.destination, message(pair, "x"));
        world.submit(pair.source, message(pair, "x"));
      }
      world.settle();
      ASSERT_EQ(world.plans(1).size(), pairs.size() * (round + 1));
    }
    for (const Plan& plan : world.plans(0)) {
      EXPECT_TRUE(plan.status.ok());
      EXPECT_EQ(plan.operation, Operation::broadcast);
      EXPECT_EQ(*plan.members, MessagePair::of(plan.process_set)->members());
    }
    world.expect_same_plans();
  }
}

TEST(ProcessSetProtocol, AMessageWithTwoShapesOrWithoutItsReceiverFails) {
  ControlWorld world(5, 3, {.radix = 2});
  const MessagePair pair{3, 4};
  world.submit(3, message(pair, "x"));
  world.submit(4, message(pair, "x", {5}));
  world.settle();
  ASSERT_EQ(world.plans(0).size(), 1u);
  EXPECT_EQ(world.plans(0)[0].status.code, StatusCode::mismatch);
  world.depart(4);
  world.submit(3, message(pair, "y"));
  world.settle();
  ASSERT_EQ(world.plans(0).size(), 2u);
  EXPECT_EQ(world.plans(0)[1].status.code, StatusCode::shut_down);
}

TEST(ProcessSetProtocol, OverlappingSetsInAnyOrderDoNotBlockEachOther) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    ControlWorld world(9, seed, {.ranks_per_host = 2, .radix = 2});
    const std::vector<RankSet> sets{RankSet(0, 9), RankSet(0, 5), RankSet(3, 9), RankSet(4, 5)};
    for (int i = 1; i < 4; ++i) world.submit_everywhere(add_set(sets[i], i));
    world.settle();
    std::vector<ProcessSetId> ids(4);
    for (const Plan& plan : world.plans(0)) {
      for (int i = 1; i < 4; ++i) {
        if (plan.tensors[0].request->members == sets[i]) ids[i] = static_cast<ProcessSetId>(plan.result);
      }
    }
    std::vector<std::pair<Rank, int>> todo;
    for (Rank rank = 0; rank < 9; ++rank) {
      for (int i = 0; i < 4; ++i) {
        if (sets[i].contains(rank)) todo.emplace_back(rank, i);
      }
    }
    std::ranges::shuffle(todo, world.random());
    for (auto [rank, i] : todo) {
      world.submit(rank, in_set(ids[i], "x"));
      world.collect(rank);
      world.deliver_one();
    }
    world.settle();
    world.expect_same_plans();
    EXPECT_EQ(world.plans(8).size(), 7u);
  }
}

TEST(ProcessSetProtocol, ASetIsMadeOnceAndRemovedWhenNothingIsInFlight) {
  ControlWorld world(6, 47, {.ranks_per_host = 2});
  world.submit_everywhere(add_set(RankSet(0, 3), 0));
  world.settle();
  world.submit_everywhere(add_set(RankSet(0, 3), 1));
  world.settle();
  EXPECT_EQ(world.plans(5)[1].status.code, StatusCode::invalid_argument);
  EXPECT_NE(world.plans(5)[1].status.message.find("process set 1 has the same members"), std::string::npos);

  Request remove = request_for("process_set.remove.0", {0});
  remove.operation = Operation::remove_process_set;
  remove.root = 1;
  world.submit(0, in_set(1, "x"));
  world.submit_everywhere(remove);
  world.settle();
  EXPECT_NE(world.plans(5)[2].status.message.find(
                "allreduce 'x' in process set 1 is in flight, submitted by rank 0"),
            std::string::npos)
      << world.plans(5)[2].status.message;
  for (Rank rank : {1, 2}) world.submit(rank, in_set(1, "x"));
  remove.name = "process_set.remove.1";
  world.settle();
  world.submit_everywhere(remove);
  world.settle();
  EXPECT_TRUE(world.plans(5).back().status.ok());
  EXPECT_EQ(world.node(5).sets().find(1), nullptr);
  // Its members may make a set again; it has another number.
  world.submit_everywhere(add_set(RankSet(0, 3), 2));
  world.settle();
  EXPECT_EQ(world.plans(5).back().result, 2);
  world.expect_same_plans();
}

// --- Groups.

Request group_of(const std::vector<std::int64_t>& lengths) {
  Request first = request_for("g.0", {lengths.front()});
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    first.others.push_back(request_for("g." + std::to_string(i), {lengths[i]}));
    first.others.back().follows = first.name;
  }
  return first;
}

TEST(Groups, AreCalledTogetherAndKnownByOneId) {
  ControlWorld world(12, 53, {.fusion_threshold = 0});
  for (int step = 0; step < 3; ++step) {
    for (Rank rank = 0; rank < 12; ++rank) {
      EXPECT_EQ(world.plans(0).size(), 3u * step);
      world.submit(rank, group_of({4, 4, 4}));
      world.settle();
    }
  }
  world.expect_same_plans();
  ASSERT_EQ(world.plans(11).size(), 9u);
  for (const Plan& plan : world.plans(11)) EXPECT_TRUE(plan.status.ok()) << plan.status.message;
  EXPECT_EQ(world.plans(11)[7].tensors.front().name(), "g.1");
  EXPECT_EQ(world.node(11).cache_use().misses, 1u);
  EXPECT_EQ(world.node(11).cache_use().hits, 2u);
}

// Whatever differs, one Plan ends the group, and nothing of it is left for the next of that name.
TEST(Groups, FailAsAWhole) {
  const std::pair<std::vector<std::int64_t>, std::string> kOthers[] = {
      {{4, 9, 4}, "shape of 'g.1' in its group: ranks 0-4, 6-11 asked for [4], rank 5 for [9]"},
      {{4, 4}, "number of tensors in its group: ranks 0-4, 6-11 asked for 3, rank 5 for 2"},
      {{4, 4, 4, 4}, "number of tensors in its group: ranks 0-4, 6-11 asked for 3, rank 5 for 4"},
      {{4}, "number of tensors in its group: ranks 0-4, 6-11 asked for 3, rank 5 for 1"}};
  ControlWorld world(12, 54, {.fusion_threshold = 0});
  std::size_t plans = 0;
  for (const auto& [other, words] : kOthers) {
    for (Rank rank = 0; rank < 12; ++rank)
      world.submit(rank, group_of(rank == 5 ? other : std::vector<std::int64_t>{4, 4, 4}));
    world.settle();
    ASSERT_EQ(world.plans(11).size(), ++plans);
    EXPECT_EQ(world.plans(11).back().status.code, StatusCode::mismatch);
    EXPECT_NE(world.plans(11).back().status.message.find("allreduce 'g.0': the ranks differ in " + words),
              std::string::npos)
        << world.plans(11).back().status.message;
    EXPECT_FALSE(world.node(5).busy());
    for (Rank rank = 0; rank < 12; ++rank) world.submit(rank, group_of(other));
    world.settle();
    ASSERT_EQ(world.plans(11).size(), plans += other.size());
    EXPECT_TRUE(world.plans(11).back().status.ok()) << world.plans(11).back().status.message;
  }
  world.expect_same_plans();
}

// --- Join.

Request join_of(Rank rank, const std::string& name) {
  Request request = request_for(name, {0});
  request.operation = Operation::join;
  request.root = rank;
  return request;
}

TEST(JoinProtocol, OthersGoOnAndTheLastIsNamed) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    constexpr Rank kSize = 30;
    ControlWorld world(kSize, seed, {.ranks_per_host = 4, .radix = 3});
    for (int epoch = 0; epoch < 2; ++epoch) {
      const std::size_t before = world.plans(0).size();
      // Rank r has r / 10 batches; ranks below 10 join at once.
      std::vector<std::vector<Request>> todo(kSize);
      for (Rank rank = 0; rank < kSize; ++rank) {
        for (int i = 0; i < rank / 10; ++i) todo[rank].push_back(request_for("x" + std::to_string(i)));
        todo[rank].push_back(join_of(rank, "join." + std::to_string(epoch)));
      }
      std::vector<std::size_t> next(kSize);
      for (int left = 10 + 20 + 30 - 1; left > 0;) {  // all but the last join, which is rank 17's
        const Rank rank = static_cast<Rank>(world.random()() % kSize);
        const std::size_t end = todo[rank].size() - (rank == 17 ? 1 : 0);
        if (next[rank] < end) {
          world.submit(rank, todo[rank][next[rank]++]);
          world.collect(rank);
          --left;
        }
        world.deliver_one();
      }
      world.settle();
      world.submit(17, todo[17].back());
      world.settle();
      world.expect_same_plans();
      const std::vector<Plan>& plans = world.plans(29);
      std::vector<std::string> names =
          names_of({plans.begin() + static_cast<std::ptrdiff_t>(before), plans.end()});
      EXPECT_EQ(names, (std::vector<std::string>{"join." + std::to_string(epoch), "x0", "x1"}));
      EXPECT_EQ(plans.back().operation, Operation::join);
      EXPECT_EQ(plans.back().result, 17);
    }
  }
}

TEST(JoinProtocol, OtherOperationsFailNamingWhoHasJoined) {
  for (bool full : {false, true}) {
    ControlWorld world(10, 59, {.ranks_per_host = 3, .full_join = full});
    world.submit(4, join_of(4, "join.0"));
    world.settle();
    Request gather = request_for("rows");
    gather.operation = Operation::allgather;
    Request broadcast = request_for("values");
    broadcast.operation = Operation::broadcast;
    broadcast.root = 4;
    for (Rank rank = 0; rank < 10; ++rank) {
      if (rank == 4) continue;
      world.submit(rank, gather);
      world.submit(rank, broadcast);
    }
    world.settle();
    world.expect_same_plans();
    ASSERT_EQ(world.plans(0).size(), 2u);
    for (const Plan& plan : world.plans(9)) {
      const bool possible = full && plan.operation == Operation::allgather;
      EXPECT_EQ(plan.status.ok(), possible) << plan.status.message;
      EXPECT_EQ(plan.status.message.find("rank 4 has joined") != std::string::npos, !possible);
    }
  }
}

}  // namespace
}  // namespace rueda
