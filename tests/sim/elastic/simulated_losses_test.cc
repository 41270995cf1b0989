// SPDX-License-Identifier: Apache-2.0
// Elastic jobs that lose ranks: all that live come into one generation, and what that takes at the root.
// simulate_losses() itself throws where a survivor is left behind.
#include "tests/sim/elastic/simulated_losses.h"

#include <gtest/gtest.h>

#include <string>

#include "core/control/membership/generation.h"
#include "launcher/protocol/agent_message.h"

namespace rueda {
namespace {

// One size of job.
class SimulatedLossesTest : public testing::TestWithParam<Rank> {
 protected:
  LossesResult run(const Losses& losses) { return simulate_losses(shape(), start_, losses); }
  ClusterShape shape() const {
    ClusterShape shape;
    shape.ranks = GetParam();
    shape.ranks_per_host = GetParam() == 8 ? 2 : 8;
    return shape;
  }
  std::uint64_t hosts() const { return static_cast<std::uint64_t>(shape().ranks / shape().ranks_per_host); }

  const StartCosts start_;
};

std::uint64_t size_of(const agents::Message& message) { return agents::encode(message).size(); }

// ruedarun hears of the loss, then of each survivor three times, and twice from rank 0. It tells each agent
// of the loss, the generation and rank 0, and answers a message with a credit at most.
TEST_P(SimulatedLossesTest, OneLossTakesWhatItHasToAtTheRoot) {
  const LossesResult result = run({.ranks = 1});
  const std::uint64_t left = static_cast<std::uint64_t>(GetParam()) - 1;
  EXPECT_EQ(result.ranks, GetParam() - 1);
  EXPECT_EQ(result.generations, 1U);
  EXPECT_EQ(result.supervisor_received.messages, 1 + 3 * left + 2);
  EXPECT_EQ(result.root_received.messages, left - 1);
  const std::uint64_t broadcasts = hosts() * 4;
  EXPECT_GT(result.supervisor_sent.messages, broadcasts);
  EXPECT_LE(result.supervisor_sent.messages, broadcasts + result.supervisor_received.messages);
  const std::uint64_t state = size_of(agents::WorkerState{});
  EXPECT_GT(result.supervisor_received.bytes, 3 * left * state);
  EXPECT_LT(result.supervisor_received.bytes, 3 * left * state + 500);
  const std::uint64_t credits = result.supervisor_received.messages * size_of(agents::Credit{});
  EXPECT_LT(result.supervisor_sent.bytes, hosts() * 500 + credits);
}

// Each loss is told to each agent, and a generation is made for each turn at most.
TEST_P(SimulatedLossesTest, TheBytesAtTheRootAreBoundedByLossesAndGenerations) {
  for (const int lost : {2, GetParam() / 2, GetParam() - 1}) {
    const LossesResult result = run({.ranks = lost});
    EXPECT_EQ(result.ranks, GetParam() - lost);
    EXPECT_LE(result.generations, static_cast<std::uint64_t>(lost));
    const std::uint64_t loss =
        size_of(agents::PeerEnded{0, "rank 1000 (process 11000 on host100) was killed by signal 9 (Killed)"});
    const std::uint64_t credits = result.supervisor_received.messages * size_of(agents::Credit{});
    const std::uint64_t each =
        static_cast<std::uint64_t>(lost) * loss + result.generations * (result.text + 500);
    EXPECT_LE(result.supervisor_sent.bytes, hosts() * each + credits);
    EXPECT_LE(result.all_broken, result.all_in);
    EXPECT_LE(result.decided, result.all_in);
  }
}

TEST_P(SimulatedLossesTest, WithoutRankZeroTheOthersGoOn) {
  const LossesResult result = run({.ranks = 1, .root = true});
  EXPECT_EQ(result.ranks, GetParam() - 1);
  EXPECT_EQ(result.text, ("generation 1 2~" + std::to_string(GetParam() - 1) + ".").size());
}

TEST_P(SimulatedLossesTest, AHostIsLostWithAllItsRanksInOneGeneration) {
  for (const bool root : {false, true}) {
    const LossesResult result = run({.hosts = 1, .root = root});
    EXPECT_EQ(result.ranks, GetParam() - shape().ranks_per_host);
    EXPECT_EQ(result.generations, 1U);
  }
}

// The start of a generation ends unfinished where the next loss comes meanwhile; rank 0 has taken connections
// in vain.
TEST_P(SimulatedLossesTest, LossesDuringTheAgreementDelayIt) {
  const LossesResult one = run({.ranks = 1});
  std::uint64_t generations = 0;
  for (const std::uint32_t seed : {1, 2, 3, 4, 5}) {
    const LossesResult several = run({.ranks = 3, .within = 2 * one.all_in, .habits = {.seed = seed}});
    EXPECT_EQ(several.ranks, GetParam() - 3);
    EXPECT_GT(several.all_in, one.all_in * 0.9);
    if (several.generations > 1) {
      EXPECT_GT(several.root_received.messages, one.root_received.messages - 3);
    }
    generations += several.generations;
  }
  EXPECT_GT(generations, 5U);
}

// Who comes waits until the others leave, or comes in with the generation that a loss makes.
TEST_P(SimulatedLossesTest, WorkersThatComeAreInTheLastGeneration) {
  for (const std::uint32_t seed : {1, 2, 3}) {
    const LossesResult beside = run(
        {.ranks = 2, .joins = 3, .within = 5000, .habits = {.skew = 100, .commit = 20'000, .seed = seed}});
    EXPECT_EQ(beside.ranks, GetParam() + 1);
  }
  const LossesResult alone = run({.joins = 1, .habits = {.commit = 20'000}});
  EXPECT_EQ(alone.ranks, GetParam() + 1);
  EXPECT_EQ(alone.generations, 1U);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SimulatedLossesTest, testing::Values(8, 1024),
                         [](const auto& info) { return "Ranks" + std::to_string(info.param); });

}  // namespace
}  // namespace rueda
