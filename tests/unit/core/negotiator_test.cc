// SPDX-License-Identifier: Apache-2.0
// The control plane of many ranks, in simulation: messages between any two ranks keep their order, all else
// is random.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "core/control/negotiator.h"
#include "core/control/roll_call.h"
#include "core/control/tree.h"

namespace rueda {
namespace {

// Purpose: N Negotiators and the messages under way between them.
class Simulation {
 public:
  Simulation(Rank size, std::uint32_t seed, Duration linger = {}) : random_(seed) {
    for (Rank rank = 0; rank < size; ++rank) {
      nodes_.push_back(std::make_unique<Negotiator>(
          rank, size,
          Negotiator::Settings{1 << 20, 1024, linger, [](const Plan&) { return std::uint8_t{0}; }}));
      plans_.emplace_back();
    }
  }

  Negotiator& node(Rank rank) { return *nodes_[rank]; }
  const std::vector<Plan>& plans(Rank rank) const { return plans_[rank]; }
  std::mt19937& random() { return random_; }
  Time now{};

  void collect(Rank rank) {
    nodes_[rank]->tick(now);
    for (Envelope& envelope : nodes_[rank]->take_outgoing()) {
      largest_ = std::max(largest_, envelope.bytes.size());
      auto& queue = under_way_[{rank, envelope.peer}];
      if (queue.empty()) ready_.emplace_back(rank, envelope.peer);
      queue.push_back(std::move(envelope.bytes));
    }
    for (Plan& plan : nodes_[rank]->take_plans()) plans_[rank].push_back(std::move(plan));
  }

  // Delivers one message of a random pair; false when none is under way.
  bool deliver_one() {
    if (ready_.empty()) return false;
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    const auto [from, to] = ready_.back();
    auto& queue = under_way_[{from, to}];
    const Bytes bytes = std::move(queue.front());
    queue.pop_front();
    if (queue.empty()) ready_.pop_back();
    nodes_[to]->receive(from, bytes, now);
    collect(to);
    return true;
  }

  void settle() {
    for (Rank rank = 0; rank < static_cast<Rank>(nodes_.size()); ++rank) collect(rank);
    while (deliver_one()) {}
  }

  void expect_same_plans() const {
    for (const auto& plans : plans_) ASSERT_EQ(plans, plans_.front());
    for (std::size_t i = 0; i < plans_.front().size(); ++i) ASSERT_EQ(plans_.front()[i].number, i + 1);
  }

  std::size_t largest_message() const { return largest_; }

 private:
  std::mt19937 random_;
  std::vector<std::unique_ptr<Negotiator>> nodes_;
  std::vector<std::vector<Plan>> plans_;
  std::map<std::pair<Rank, Rank>, std::deque<Bytes>> under_way_;
  std::vector<std::pair<Rank, Rank>> ready_;  // pairs with something under way
  std::size_t largest_ = 0;
};

Request request(const std::string& name, Shape shape = {4}) {
  Request result;
  result.name = name;
  result.shape = std::move(shape);
  return result;
}

std::vector<std::string> names_of(const std::vector<Plan>& plans) {
  std::vector<std::string> names;
  for (const Plan& plan : plans) {
    for (const PlanTensor& tensor : plan.tensors) names.push_back(tensor.name);
  }
  std::ranges::sort(names);
  return names;
}

class NegotiatorTest : public testing::TestWithParam<Rank> {};

TEST_P(NegotiatorTest, AnyOrderGivesTheSamePlansEverywhere) {
  const Rank size = GetParam();
  Simulation simulation(size, 7u + size);
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("tensor" + std::to_string(i));
  // Each rank submits in its own order; a round of submissions and deliveries at random times.
  std::vector<std::vector<std::string>> order(size, names);
  for (auto& mine : order) std::ranges::shuffle(mine, simulation.random());
  std::vector<std::size_t> next(size);
  std::size_t left = names.size() * size;
  while (left > 0) {
    const Rank rank = static_cast<Rank>(simulation.random()() % size);
    if (next[rank] < names.size()) {
      simulation.node(rank).submit(request(order[rank][next[rank]++]), simulation.now);
      simulation.collect(rank);
      --left;
    }
    if (simulation.random()() % 2 == 0) simulation.deliver_one();
  }
  simulation.settle();
  simulation.expect_same_plans();
  std::ranges::sort(names);
  EXPECT_EQ(names_of(simulation.plans(size - 1)), names);
  for (Rank rank = 0; rank < size; ++rank) EXPECT_FALSE(simulation.node(rank).busy());
}

TEST_P(NegotiatorTest, NothingIsCalledBeforeAllHaveIt) {
  const Rank size = GetParam();
  Simulation simulation(size, 1);
  for (Rank rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(simulation.plans(0).empty());
    simulation.node(rank).submit(request("x"), simulation.now);
    simulation.settle();
  }
  EXPECT_EQ(simulation.plans(size - 1).size(), 1u);
}

TEST_P(NegotiatorTest, AMismatchIsAnErrorPlanThatNamesBothSides) {
  const Rank size = GetParam();
  if (size == 1) return;
  Simulation simulation(size, 3);
  const Rank odd = size - 1;
  for (Rank rank = 0; rank < size; ++rank) {
    simulation.node(rank).submit(request("x", {rank == odd ? 5 : 4}), simulation.now);
  }
  simulation.settle();
  simulation.expect_same_plans();
  ASSERT_EQ(simulation.plans(0).size(), 1u);
  const Status& status = simulation.plans(odd)[0].status;
  EXPECT_EQ(status.code, StatusCode::mismatch);
  EXPECT_NE(status.message.find("rank " + std::to_string(odd) + " for [5]"), std::string::npos)
      << status.message;
  EXPECT_NE(status.message.find("asked for [4]"), std::string::npos) << status.message;
  // The name is clean afterwards.
  for (Rank rank = 0; rank < size; ++rank) simulation.node(rank).submit(request("x"), simulation.now);
  simulation.settle();
  EXPECT_TRUE(simulation.plans(odd).back().status.ok());
}

TEST_P(NegotiatorTest, ARankThatLeftIsNamed) {
  const Rank size = GetParam();
  if (size == 1) return;
  Simulation simulation(size, 5);
  const Rank gone = size - 1;
  for (Rank rank = 0; rank < size; ++rank) {
    if (rank == gone) {
      simulation.node(rank).depart(simulation.now);
    } else {
      simulation.node(rank).submit(request("x"), simulation.now);
    }
  }
  simulation.settle();
  simulation.expect_same_plans();
  ASSERT_EQ(simulation.plans(0).size(), 1u);
  EXPECT_EQ(simulation.plans(0)[0].status.code, StatusCode::shut_down);
  EXPECT_NE(simulation.plans(0)[0].status.message.find("rank " + std::to_string(gone) + " shut down"),
            std::string::npos);
  EXPECT_FALSE(simulation.node(0).ended());
  for (Rank rank = 0; rank < gone; ++rank) simulation.node(rank).depart(simulation.now);
  simulation.settle();
  for (Rank rank = 0; rank < size; ++rank) EXPECT_TRUE(simulation.node(rank).ended()) << rank;
}

TEST_P(NegotiatorTest, CrossedShutdownsEnd) {
  // Every rank waits for a tensor that no other has, and has departed: all get an error, and the job ends.
  const Rank size = GetParam();
  if (size == 1) return;
  Simulation simulation(size, 11);
  for (Rank rank = 0; rank < size; ++rank) {
    simulation.node(rank).submit(request("only" + std::to_string(rank)), simulation.now);
    simulation.node(rank).depart(simulation.now);
  }
  simulation.settle();
  simulation.expect_same_plans();
  EXPECT_EQ(names_of(simulation.plans(0)).size(), static_cast<std::size_t>(size));
  for (Rank rank = 0; rank < size; ++rank) EXPECT_TRUE(simulation.node(rank).ended()) << rank;
}

TEST_P(NegotiatorTest, AFailureReachesEveryRank) {
  const Rank size = GetParam();
  Simulation simulation(size, 13);
  simulation.node(size - 1).fail(Status::peer_lost("rank 99 is lost"));
  simulation.settle();
  for (Rank rank = 0; rank < size; ++rank)
    EXPECT_EQ(simulation.node(rank).failure(), Status::peer_lost("rank 99 is lost"));
}

INSTANTIATE_TEST_SUITE_P(Sizes, NegotiatorTest, testing::Values(1, 2, 3, 8, 33, 34, 100, 1100));

TEST(Negotiator, ReportsDoNotGrowWithTheNumberOfRanks) {
  auto largest = [](Rank size) {
    Simulation simulation(size, 17);
    for (Rank rank = 0; rank < size; ++rank) simulation.node(rank).submit(request("x"), simulation.now);
    simulation.settle();
    return simulation.largest_message();
  };
  EXPECT_LE(largest(1100), largest(2) + 64);
}

TEST(Negotiator, AReadyTensorLingersOnlyWhileOthersAreOnTheirWay) {
  Simulation simulation(2, 19, std::chrono::milliseconds(1));
  for (Rank rank : {0, 1}) simulation.node(rank).submit(request("a"), simulation.now);
  simulation.settle();
  EXPECT_EQ(simulation.plans(1).size(), 1u);  // nothing else: at once

  simulation.node(0).submit(request("b"), simulation.now);  // on its way
  for (Rank rank : {0, 1}) simulation.node(rank).submit(request("c"), simulation.now);
  simulation.settle();
  EXPECT_EQ(simulation.plans(1).size(), 1u);
  EXPECT_EQ(simulation.node(0).due(), simulation.now + std::chrono::milliseconds(1));
  simulation.now += std::chrono::milliseconds(1);
  simulation.settle();
  EXPECT_EQ(simulation.plans(1).size(), 2u);  // not for ever

  for (Rank rank : {0, 1}) simulation.node(rank).submit(request("d"), simulation.now);
  simulation.node(1).submit(request("b"), simulation.now);
  simulation.settle();
  ASSERT_EQ(simulation.plans(1).size(), 3u);
  EXPECT_EQ(simulation.plans(1)[2].tensors.size(), 2u);  // together
}

TEST(Negotiator, GarbageIsAFailureNotACrash) {
  Simulation simulation(2, 23);
  const Bytes garbage(5, std::byte{0xff});
  simulation.node(0).receive(1, garbage, simulation.now);
  EXPECT_EQ(simulation.node(0).failure().code, StatusCode::backend_error);
  simulation.settle();
  EXPECT_EQ(simulation.node(1).failure(), simulation.node(0).failure());
}

TEST(Planner, FusesWhatFitsAndKeepsTheOrder) {
  Planner planner(256, 1024, [](const Plan&) { return std::uint8_t{0}; });
  Request doubles = request("d");
  doubles.dtype = DataType::float64;
  const std::vector<Plan> plans =
      planner.fuse({request("a"), doubles, request("b"), request("big", {1000}), request("c")});
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(names_of({plans[0]}), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(plans[0].tensors[1].offset, kFusionAlignment);
  EXPECT_EQ(plans[0].buffer_bytes, 3 * kFusionAlignment);
  EXPECT_EQ(names_of({plans[2]}), (std::vector<std::string>{"big"}));
}

TEST(Planner, AThresholdOfZeroFusesNothing) {
  Planner planner(0, 1024, [](const Plan&) { return std::uint8_t{0}; });
  EXPECT_EQ(planner.fuse({request("a"), request("b")}).size(), 2u);
}

TEST(Tree, EveryRankHasOneParentAndSubtreesAreWhole) {
  constexpr Rank kSize = 5000;
  EXPECT_EQ(tree::subtree(0, kSize), RankSet(0, kSize));
  Rank children = 0;
  for (Rank rank = 0; rank < kSize; ++rank) {
    RankSet below = RankSet::of(rank);
    for (Rank child : tree::children(rank, kSize)) {
      EXPECT_EQ(tree::parent(child), rank);
      below.add(tree::subtree(child, kSize));
      ++children;
    }
    EXPECT_EQ(below, tree::subtree(rank, kSize));
  }
  EXPECT_EQ(children, kSize - 1);
}

// Introductions of ranks 0..size-1 over the tree; those in `absent` never come.
std::vector<RollCall> call_the_roll(Rank size, const RankSet& absent, const std::string& odd_version = "1") {
  std::vector<RollCall> nodes;
  for (Rank rank = 0; rank < size; ++rank) {
    nodes.emplace_back(Introduction{rank,
                                    rank == 1 ? odd_version : "1",
                                    "host" + std::to_string(rank / 2),
                                    100 + rank,
                                    {"A=" + std::to_string(rank / 2)},
                                    "card" + std::to_string(rank)},
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
    EXPECT_EQ(node.welcome()->cards[68], "card68");
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
