// SPDX-License-Identifier: Apache-2.0
// Agreement among many ranks, in simulation.
#include "core/control/negotiator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/control_world.h"

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

// --- The request cache.

TEST(RequestCacheProtocol, FromTheSecondTimeOnARequestIsOneBit) {
  ControlWorld world(100, 29);
  const std::string name(500, 'n');
  std::size_t first = 0;
  for (int round = 0; round < 3; ++round) {
    world.submit_everywhere(request_for(name));
    world.settle();
    if (round == 0) first = world.largest_message();
  }
  world.expect_same_plans();
  EXPECT_EQ(world.plans(99).size(), 3u);
  EXPECT_GT(first, 500u);
  for (Rank rank : {0, 1, 8, 99}) {
    EXPECT_EQ(world.node(rank).cache_misses(), 1u);
    EXPECT_EQ(world.node(rank).cache_hits(), 2u);
  }
}

TEST(RequestCacheProtocol, AChangedRequestIsCalledAsItIsNow) {
  ControlWorld world(20, 31);
  for (std::int64_t extent : {4, 4, 7, 7, 4}) {
    world.submit_everywhere(request_for("x", {extent}));
    world.settle();
    EXPECT_EQ(world.plans(19).back().tensors[0].elements(), extent);
    EXPECT_TRUE(world.plans(19).back().status.ok());
  }
  world.expect_same_plans();
}

TEST(RequestCacheProtocol, ABitAndAnotherRequestAreAMismatch) {
  ControlWorld world(20, 37);
  world.submit_everywhere(request_for("x"));
  world.settle();
  for (Rank rank = 0; rank < 20; ++rank) world.submit(rank, request_for("x", {rank == 13 ? 5 : 4}));
  world.settle();
  world.expect_same_plans();
  const Status& status = world.plans(3).back().status;
  EXPECT_EQ(status.message,
            "allreduce 'x': the ranks differ in shape: ranks 0-12, 14-19 asked for [4], rank 13 for [5]. "
            "Submit 'x' with the same shape on every rank, or under different names.");
  world.submit_everywhere(request_for("x"));
  world.settle();
  EXPECT_TRUE(world.plans(3).back().status.ok());
}

TEST(RequestCacheProtocol, NamesThatDoNotComeAgainAreForgottenWhileAModelStays) {
  ControlWorld world(9, 41, {.cache_least = 16});
  constexpr int kModel = 100, kRounds = 30;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kModel; ++i) world.submit_everywhere(request_for("w" + std::to_string(i)));
    for (int i = 0; i < 50; ++i)
      world.submit_everywhere(request_for("once" + std::to_string(round * 100 + i)));
    world.settle();
  }
  world.expect_same_plans();
  EXPECT_EQ(world.node(8).cache_hits(), static_cast<std::uint64_t>(kModel * (kRounds - 1)));
}

TEST(RequestCacheProtocol, BitsThatCrossTheEndOfTheirIdStillCount) {
  // A cache that forgets at once, and ranks that are out of step: ids end while bits for them are under way.
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    ControlWorld world(12, seed, {.ranks_per_host = 3, .radix = 2, .cache_least = 1});
    constexpr int kNames = 6, kRounds = 8;
    std::vector<int> submitted(12 * kNames), done(12 * kNames);
    std::vector<std::size_t> seen(12);
    for (int left = 12 * kNames * kRounds; left > 0;) {
      const Rank rank = static_cast<Rank>(world.random()() % 12);
      const int name = static_cast<int>(world.random()() % kNames);
      for (const std::vector<Plan>& plans = world.plans(rank); seen[rank] < plans.size(); ++seen[rank]) {
        for (const PlanTensor& tensor : plans[seen[rank]].tensors)
          ++done[rank * kNames + (tensor.name()[1] - '0')];
      }
      int& count = submitted[rank * kNames + name];
      if (count == done[rank * kNames + name] && count < kRounds) {
        world.submit(rank, request_for("n" + std::to_string(name), {count / 3 + 1}));
        world.collect(rank);
        ++count;
        --left;
      }
      world.deliver_one();
    }
    world.settle();
    world.expect_same_plans();
    ASSERT_EQ(names_of(world.plans(11)).size(), static_cast<std::size_t>(kNames * kRounds)) << seed;
    for (const Plan& plan : world.plans(0)) ASSERT_TRUE(plan.status.ok()) << plan.status.message;
  }
}

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

TEST(Groups, AreCalledTogetherOrFailTogether) {
  for (bool bad : {false, true}) {
    ControlWorld world(12, 53, {.fusion_threshold = 0});
    auto member = [&](Rank rank, int i) {
      Request request = request_for("g." + std::to_string(i), {bad && rank == 5 && i == 1 ? 9 : 4});
      request.group = "g";
      request.group_size = 3;
      return request;
    };
    for (int i = 0; i < 2; ++i) {
      for (Rank rank = 0; rank < 12; ++rank) world.submit(rank, member(rank, i));
      world.settle();
    }
    EXPECT_TRUE(world.plans(0).empty());
    for (Rank rank = 0; rank < 12; ++rank) world.submit(rank, member(rank, 2));
    world.settle();
    world.expect_same_plans();
    ASSERT_EQ(world.plans(11).size(), 3u);
    for (const Plan& plan : world.plans(11)) {
      EXPECT_EQ(plan.status.code, bad ? StatusCode::mismatch : StatusCode::ok);
    }
  }
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

// --- Stalls.

TEST(Stalls, AreReportedOnceWithWhatTheMissingAreDoing) {
  using std::chrono::milliseconds;
  ControlWorld world(40, 61, {.stall_report = milliseconds(3000)});
  const RankSet late = RankSet(13, 15);
  world.own_state = [&](Rank rank, const Key& key) {
    return StallInspector::OwnState{true, !late.contains(rank),
                                    "rests since '" + key.name + "' of rank " + std::to_string(rank)};
  };
  for (Rank rank = 0; rank < 40; ++rank) {
    if (late.contains(rank)) continue;
    world.submit(rank, request_for("a"));
    world.submit(rank, request_for("b"));
  }
  world.silence(14);
  world.settle_for(milliseconds(2900), milliseconds(100));
  EXPECT_TRUE(world.reports().empty());
  world.settle_for(milliseconds(2000), milliseconds(100));
  ASSERT_EQ(world.reports().size(), 1u);  // both names wait for the same
  const std::string& report = world.reports()[0];
  EXPECT_NE(report.find("allreduce 'a' and 1 operations more are not complete after"), std::string::npos)
      << report;
  EXPECT_NE(report.find("waiting: ranks 0-12, 15-39"), std::string::npos) << report;
  EXPECT_NE(report.find("not submitted by: rank 13\n"), std::string::npos) << report;
  EXPECT_NE(report.find("rank 13: rests since"), std::string::npos) << report;
  EXPECT_NE(report.find("no answer from: rank 14"), std::string::npos) << report;
  EXPECT_NE(report.find("rank 14: process 114 on somewhere"), std::string::npos) << report;
  world.settle_for(milliseconds(20000), milliseconds(500));
  EXPECT_EQ(world.reports().size(), 1u);
}

TEST(Stalls, ALimitEndsTheJobEverywhereWithTheSameWords) {
  using std::chrono::milliseconds;
  ControlWorld world(12, 67, {.stall_report = milliseconds(1000), .stall_fail = milliseconds(4000)});
  world.own_state = [](Rank rank, const Key&) {
    return StallInspector::OwnState{true, rank != 11, "is late"};
  };
  for (int round = 0; round < 2; ++round) {  // the second time it travels as a bit
    for (Rank rank = 0; rank < 11; ++rank) world.submit(rank, request_for("x"));
    if (round == 0) world.submit(11, request_for("x"));
    world.settle();
  }
  world.settle_for(milliseconds(3800), milliseconds(100));
  EXPECT_TRUE(world.node(0).failure().ok());
  world.settle_for(milliseconds(500), milliseconds(100));
  for (Rank rank = 0; rank < 12; ++rank) {
    EXPECT_EQ(world.node(rank).failure().code, StatusCode::stalled);
    EXPECT_EQ(world.node(rank).failure(), world.node(0).failure());
  }
  EXPECT_NE(world.node(5).failure().message.find("not submitted by: rank 11"), std::string::npos);
}

}  // namespace
}  // namespace rueda
