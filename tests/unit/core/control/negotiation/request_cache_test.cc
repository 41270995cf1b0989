// SPDX-License-Identifier: Apache-2.0
// Requests that travel as bits, in simulation.
#include "core/control/negotiation/request_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/control/messages/call_in_words.h"
#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

TEST(RequestCache, TheLikelyIdIsLookedAtFirst) {
  RequestCache cache;
  auto shared = [](Request request) { return std::make_shared<const Request>(std::move(request)); };
  auto call = [&](std::uint64_t number, CacheId id, std::int64_t extent, std::vector<CacheId> evicted = {}) {
    Plan plan;
    plan.number = number;
    plan.evicted = std::move(evicted);
    plan.tensors = {{id, true, shared(request_for("x", {extent})), 0}};
    cache.apply(plan);
  };
  const SharedRequest four = shared(request_for("x", {4})), seven = shared(request_for("x", {7}));
  EXPECT_EQ(cache.find(four, 0, 1), 0u);  // never given
  call(1, 1, 4);
  EXPECT_EQ(cache.find(four, 0, 1), 0u);  // not yet
  EXPECT_EQ(cache.find(four, 1, 1), 1u);
  EXPECT_EQ(cache.find(seven, 1, 1), 0u);  // it means something else
  call(2, 2, 7, {1});
  EXPECT_EQ(cache.find(four, 2, 1), 0u);   // ended
  EXPECT_EQ(cache.find(seven, 2, 1), 2u);  // another one is right
  EXPECT_EQ(cache.find(seven, 2, 2), 2u);
  EXPECT_EQ(cache.find(seven, 2, 99'999), 2u);
  cache.forget(2);
  EXPECT_EQ(cache.find(four, 2, 1), 0u);
  Request group = request_for("x", {7});
  group.others = {request_for("y")};
  EXPECT_EQ(cache.find(shared(group), 2, 2), 0u);
}

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
    EXPECT_EQ(world.node(rank).cache_use().misses, 1u);
    EXPECT_EQ(world.node(rank).cache_use().hits, 2u);
  }
}

// Whoever says so, whatever the others have sent of it, bits too; and the next time it is a bit everywhere.
TEST(RequestCacheProtocol, OneRankWhoseTensorIsElsewhereIsEnough) {
  for (const bool in_group : {false, true}) {
    ControlWorld world(40, 31);
    Request request = request_for("x");
    request.device = DeviceKind::cuda;
    if (in_group) {
      request.others = {request};
      request.others[0].name = "x.1";
      request.others[0].follows = "x";
    }
    for (const Rank odd : {-1, 0, -1, 17, 39, -1}) {
      for (Rank rank = 0; rank < world.size(); ++rank) {
        Request mine = request;
        (in_group ? mine.others[0] : mine).elsewhere = rank == odd;
        world.submit(rank, mine);
        if (rank % 3 == 0) world.settle();
      }
      world.settle();
      world.expect_same_plans();
      const Plan& last = world.plans(7).back();
      ASSERT_TRUE(last.status.ok()) << last.status.message;
      EXPECT_EQ(last.tensors.back().request->elsewhere, odd >= 0);
      EXPECT_TRUE(last.evicted.empty());
    }
    EXPECT_EQ(world.node(1).cache_use().misses, 1u);
    EXPECT_EQ(world.node(17).cache_use().misses, 2u);
  }
}

// They hold what they had, and nobody asks them.
TEST(RequestCacheProtocol, ARankThatHasJoinedHasNothingInItsSlot) {
  ControlWorld world(9, 5);
  Request request = request_for("x");
  request.device = DeviceKind::cuda;
  world.submit_everywhere(request);
  world.settle();
  Request join;
  join.operation = Operation::join;
  join.name = "join";
  join.root = 4;
  world.submit(4, join);
  for (Rank rank = 0; rank < world.size(); ++rank) {
    if (rank != 4) world.submit(rank, request);
  }
  world.settle();
  world.expect_same_plans();
  EXPECT_FALSE(world.plans(0)[0].tensors[0].request->elsewhere);
  EXPECT_TRUE(world.plans(0)[1].tensors[0].request->elsewhere);
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

TEST(RequestCacheProtocol, ABitAndARequestWithAnotherSignatureAreAMismatchOfCalls) {
  describe_calls_by([](const Request& request) {
    return CallInWords{request.signature < 10 ? "sum" : "product", {}, "float32", to_string(request.shape)};
  });
  auto signed_by = [](std::uint64_t signature, Shape shape = {4}) {
    Request request = request_for("x", std::move(shape));
    request.signature = signature;
    return request;
  };
  ControlWorld world(20, 43);
  auto words = [&](const Request& odd) {
    world.submit_everywhere(signed_by(1));
    world.settle();
    EXPECT_TRUE(world.plans(3).back().status.ok());
    for (Rank rank = 0; rank < 20; ++rank) world.submit(rank, rank == 13 ? odd : signed_by(1));
    world.settle();
    EXPECT_EQ(world.plans(3).back().status.code, StatusCode::mismatch);
    return world.plans(3).back().status.message;
  };
  EXPECT_EQ(
      words(signed_by(10)),
      "the ranks differ in the operation: ranks 0-12, 14-19 called sum of float32 [4], rank 13 product of "
      "float32 [4]. Call the same operations in the same order on every rank.");
  EXPECT_EQ(
      words(signed_by(1, {5})),
      "the ranks differ in the shape: ranks 0-12, 14-19 called sum of float32 [4], rank 13 sum of float32 "
      "[5]. Call it with the same shape on every rank.");
  EXPECT_NE(words(signed_by(2)).find("sizes of the tensors in its list: ranks 0-12, 14-19 called sum"),
            std::string::npos);
  EXPECT_EQ(words(request_for("x")).find("allreduce 'x': the ranks differ in signature: ranks 0-12"), 0u);
  world.expect_same_plans();
  describe_calls_by(nullptr);
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
  EXPECT_EQ(world.node(8).cache_use().hits, static_cast<std::uint64_t>(kModel * (kRounds - 1)));
}

// Each has a name of its own: as many of them as may come do not push a name out.
TEST(RequestCacheProtocol, BarriersTakeNoEntry) {
  ControlWorld world(3, 41, {.cache_least = 2});
  for (int round = 0; round < 3; ++round) {
    world.submit_everywhere(request_for("w"));
    world.settle();
    for (int i = 0; i < 20; ++i) {
      Request barrier;
      barrier.name = "barrier." + std::to_string(round * 100 + i);
      barrier.operation = Operation::barrier;
      barrier.dtype = DataType::uint8;
      world.submit_everywhere(barrier);
      world.settle();
    }
  }
  world.expect_same_plans();
  EXPECT_EQ(world.node(2).cache_use().hits, 2u);
  for (const Plan& plan : world.plans(0)) EXPECT_TRUE(plan.evicted.empty());
}

TEST(RequestCacheProtocol, AnIdDoesNotEndInThePlanThatGivesIt) {
  // More names in one Plan than the cache keeps.
  ControlWorld world(3, 43, {.linger = std::chrono::seconds(1), .cache_least = 2});
  for (int i = 0; i < 8; ++i) {
    for (Rank rank : {0, 1, 2}) world.submit(rank, request_for("w" + std::to_string(i)));
  }
  world.settle();
  world.now += std::chrono::seconds(1);
  world.settle();
  for (const Plan& plan : world.plans(0)) {
    for (CacheId id : plan.evicted) {
      for (const PlanTensor& tensor : plan.tensors) EXPECT_NE(id, tensor.id) << "Plan " << plan.number;
    }
  }
  ASSERT_FALSE(world.plans(0).empty());
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

}  // namespace
}  // namespace rueda
