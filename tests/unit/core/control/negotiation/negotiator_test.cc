// SPDX-License-Identifier: Apache-2.0
// Agreement among many ranks, in simulation.
#include "core/control/negotiation/negotiator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

class NegotiatorTest : public testing::TestWithParam<Rank> {};

TEST_P(NegotiatorTest, AnyOrderGivesTheSamePlansEverywhere) {
  const Rank size = GetParam();
  ControlWorld world(size, 7u + size);
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("tensor" + std::to_string(i));
  // Each rank submits in its own order; a round of submissions and deliveries at random times.
  std::vector<std::vector<std::string>> order(size, names);
  for (auto& mine : order) std::ranges::shuffle(mine, world.random());
  std::vector<std::size_t> next(size);
  std::size_t left = names.size() * size;
  while (left > 0) {
    const Rank rank = static_cast<Rank>(world.random()() % size);
    if (next[rank] < names.size()) {
      world.submit(rank, request_for(order[rank][next[rank]++]));
      world.collect(rank);
      --left;
    }
    if (world.random()() % 2 == 0) world.deliver_one();
  }
  world.settle();
  world.expect_same_plans();
  std::ranges::sort(names);
  EXPECT_EQ(names_of(world.plans(size - 1)), names);
  for (Rank rank = 0; rank < size; ++rank) EXPECT_FALSE(world.node(rank).busy());
}

TEST_P(NegotiatorTest, NothingIsCalledBeforeAllHaveIt) {
  const Rank size = GetParam();
  ControlWorld world(size, 1);
  for (Rank rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(world.plans(0).empty());
    world.submit(rank, request_for("x"));
    world.settle();
  }
  EXPECT_EQ(world.plans(size - 1).size(), 1u);
}

TEST_P(NegotiatorTest, AMismatchIsAnErrorPlanThatNamesBothSides) {
  const Rank size = GetParam();
  if (size == 1) return;
  ControlWorld world(size, 3);
  const Rank odd = size - 1;
  for (Rank rank = 0; rank < size; ++rank) {
    world.submit(rank, request_for("x", {rank == odd ? 5 : 4}));
  }
  world.settle();
  world.expect_same_plans();
  ASSERT_EQ(world.plans(0).size(), 1u);
  const Status& status = world.plans(odd)[0].status;
  EXPECT_EQ(status.code, StatusCode::mismatch);
  EXPECT_NE(status.message.find("rank " + std::to_string(odd) + " for [5]"), std::string::npos)
      << status.message;
  EXPECT_NE(status.message.find("asked for [4]"), std::string::npos) << status.message;
  // The name is clean afterwards.
  for (Rank rank = 0; rank < size; ++rank) world.submit(rank, request_for("x"));
  world.settle();
  EXPECT_TRUE(world.plans(odd).back().status.ok());
}

TEST_P(NegotiatorTest, ARankThatLeftIsNamed) {
  const Rank size = GetParam();
  if (size == 1) return;
  ControlWorld world(size, 5);
  const Rank gone = size - 1;
  for (Rank rank = 0; rank < size; ++rank) {
    if (rank == gone) {
      world.depart(rank);
    } else {
      world.submit(rank, request_for("x"));
    }
  }
  world.settle();
  world.expect_same_plans();
  ASSERT_EQ(world.plans(0).size(), 1u);
  EXPECT_EQ(world.plans(0)[0].status.code, StatusCode::shut_down);
  EXPECT_NE(world.plans(0)[0].status.message.find("rank " + std::to_string(gone) + " shut down"),
            std::string::npos);
  EXPECT_FALSE(world.node(0).ended());
  for (Rank rank = 0; rank < gone; ++rank) world.depart(rank);
  world.settle();
  for (Rank rank = 0; rank < size; ++rank) EXPECT_TRUE(world.node(rank).ended()) << rank;
}

TEST(Negotiator, ATensorThatADepartureCompletesBelowIsNotCalled) {
  // Rank 3 is a grandchild of rank 0: the requests of its parent's subtree come up because it departs.
  ControlWorld world(7, 9, {.ranks_per_host = 1, .radix = 2});
  for (Rank rank : {0, 1, 2, 4, 5, 6}) world.submit(rank, request_for("x"));
  world.settle();
  EXPECT_TRUE(world.plans(0).empty());
  world.depart(3);
  world.settle();
  world.expect_same_plans();
  ASSERT_EQ(world.plans(0).size(), 1u);
  EXPECT_EQ(world.plans(0)[0].status.code, StatusCode::shut_down);
}

TEST_P(NegotiatorTest, CrossedShutdownsEnd) {
  // Every rank waits for a tensor that no other has, and has departed: all get an error, and the job ends.
  const Rank size = GetParam();
  if (size == 1) return;
  ControlWorld world(size, 11);
  for (Rank rank = 0; rank < size; ++rank) {
    world.submit(rank, request_for("only" + std::to_string(rank)));
    world.depart(rank);
  }
  world.settle();
  world.expect_same_plans();
  EXPECT_EQ(names_of(world.plans(0)).size(), static_cast<std::size_t>(size));
  for (Rank rank = 0; rank < size; ++rank) EXPECT_TRUE(world.node(rank).ended()) << rank;
}

TEST_P(NegotiatorTest, AFailureReachesEveryRank) {
  const Rank size = GetParam();
  ControlWorld world(size, 13);
  world.node(size - 1).fail(Status::peer_lost("rank 99 is lost"));
  world.settle();
  for (Rank rank = 0; rank < size; ++rank)
    EXPECT_EQ(world.node(rank).failure(), Status::peer_lost("rank 99 is lost"));
}

INSTANTIATE_TEST_SUITE_P(Sizes, NegotiatorTest, testing::Values(1, 2, 3, 8, 33, 34, 100, 1100));

TEST(Negotiator, ReportsDoNotGrowWithTheNumberOfRanks) {
  auto largest = [](Rank size) {
    ControlWorld world(size, 17);
    for (Rank rank = 0; rank < size; ++rank) world.submit(rank, request_for("x"));
    world.settle();
    return world.largest_message();
  };
  EXPECT_LE(largest(1100), largest(2) + 64);
}

TEST(Negotiator, PlansTakeTurnsInAreasWhereSomeAreUnderWay) {
  ControlWorld world(3, 7);
  auto call = [&](bool works_run, const std::string& name) {
    world.works_run = works_run;
    world.submit_everywhere(request_for(name));
    world.settle();
    return world.plans(2).back().area;
  };
  EXPECT_EQ(call(false, "a"), 0);
  EXPECT_EQ(call(false, "b"), 0);
  EXPECT_EQ(call(true, "c"), 1);
  EXPECT_EQ(call(true, "d"), 0);
  EXPECT_EQ(call(true, "e"), 1);
  EXPECT_EQ(call(false, "f"), 0);
  // Rank 0 does not see when those of others are over.
  Request others = request_for("");
  others.operation = Operation::add_process_set;
  others.members = RankSet(1, 3);
  others.name = "set";
  world.works_run = false;
  world.submit_everywhere(others);
  world.settle();
  const auto set = static_cast<ProcessSetId>(world.plans(2).back().result);
  std::vector<int> areas;
  for (const char* name : {"g", "h", "i"}) {
    Request request = request_for(name);
    request.process_set = set;
    for (Rank rank : {1, 2}) world.submit(rank, request);
    world.settle();
    areas.push_back(world.plans(2).back().area);
  }
  EXPECT_NE(areas[1], areas[0]);
  EXPECT_NE(areas[2], areas[1]);
  world.expect_same_plans();
}

TEST(Negotiator, AReadyTensorLingersOnlyWhileOthersAreOnTheirWay) {
  ControlWorld world(2, 19, {.linger = std::chrono::milliseconds(1)});
  for (Rank rank : {0, 1}) world.submit(rank, request_for("a"));
  world.settle();
  EXPECT_EQ(world.plans(1).size(), 1u);  // nothing else: at once

  world.submit(0, request_for("b"));  // on its way
  for (Rank rank : {0, 1}) world.submit(rank, request_for("c"));
  world.settle();
  EXPECT_EQ(world.plans(1).size(), 1u);
  EXPECT_EQ(world.node(0).due(), world.now + std::chrono::milliseconds(1));
  world.now += std::chrono::milliseconds(1);
  world.settle();
  EXPECT_EQ(world.plans(1).size(), 2u);  // not for ever

  for (Rank rank : {0, 1}) world.submit(rank, request_for("d"));
  world.submit(1, request_for("b"));
  world.settle();
  ASSERT_EQ(world.plans(1).size(), 3u);
  EXPECT_EQ(world.plans(1)[2].tensors.size(), 2u);  // together
}

TEST(Negotiator, GarbageIsAFailureNotACrash) {
  ControlWorld world(2, 23);
  const Bytes garbage(5, std::byte{0xff});
  world.node(0).receive(1, garbage, world.now);
  EXPECT_EQ(world.node(0).failure().code, StatusCode::backend_error);
  world.settle();
  EXPECT_EQ(world.node(1).failure(), world.node(0).failure());
}

}  // namespace
}  // namespace rueda
