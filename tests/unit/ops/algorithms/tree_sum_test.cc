// SPDX-License-Identifier: Apache-2.0
// Sums over links: in one order, the same bits on all ranks, in any interleaving, abandoned at any moment.
#include "ops/algorithms/passes/tree_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/conformance/tree_sum.h"
#include "tests/support/worlds/memory_network.h"

namespace rueda {
namespace {

// Numbers of very different sizes, so that another order gives other bits.
double number_of(Rank rank, std::size_t i) {
  std::mt19937 random(static_cast<unsigned>(rank) * 1000 + static_cast<unsigned>(i));
  return std::ldexp(1.0 + static_cast<double>(random()) * 0x1p-32, static_cast<int>(random() % 60));
}

// Purpose: one rank's part of a sum. A test's own.
struct Summand {
  std::unique_ptr<Link> link;
  Channel channel;
  std::vector<double> numbers;
  std::vector<double> room;
  TreeSum sum;
  bool over = false;

  Summand(MemoryNetwork& network, const std::shared_ptr<const RankSet>& members, Rank rank, std::size_t count,
          std::int64_t chunk_bytes)
      : link(network.link(rank)),
        channel(*link, 1),
        numbers(count),
        room(TreeSum::room({rank, members->count(), members, {}}, count)),
        sum({.channel = &channel, .group = {rank, members->count(), members, {}}, .chunk_bytes = chunk_bytes},
            numbers.data(), count, room.data()) {
    for (std::size_t i = 0; i < count; ++i) numbers[i] = number_of(rank, i);
  }
};

// `abandons`: how many of 100 ranks. Counts the ranks that end with sums.
void run_tree_sum(unsigned seed, unsigned abandons, int& summed) {
  std::mt19937 random(seed);
  const auto size = static_cast<Rank>(1 + random() % 17);
  const std::size_t count = random() % 40;
  const auto chunk_bytes = static_cast<std::int64_t>(8 * (1 + random() % 20));
  MemoryNetwork network(size);
  const auto members = std::make_shared<const RankSet>(0, size);
  std::vector<std::unique_ptr<Summand>> ranks;
  for (Rank rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Summand>(network, members, rank, count, chunk_bytes));
  Rank left = size;
  for (int steps = 0; left > 0; ++steps) {
    ASSERT_LT(steps, 100'000) << "somebody waits for ever";
    Summand& rank = *ranks[random() % ranks.size()];
    if (rank.over) continue;
    if (random() % 1000 < abandons) rank.channel.abandon();
    rank.over = rank.sum.step() == Work::Step::done;
    left -= rank.over ? 1 : 0;
  }
  for (const auto& rank : ranks) {
    if (rank->channel.abandoned()) continue;
    ++summed;
    for (std::size_t i = 0; i < count; ++i) {
      auto value = [i](std::size_t at) { return number_of(static_cast<Rank>(at), i); };
      ASSERT_EQ(rank->numbers[i], tree_sum(value, 0, static_cast<std::size_t>(size))) << size << " ranks";
    }
  }
}

TEST(TreeSum, AddsInTheOrderOfABalancedTree) {
  int summed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    run_tree_sum(seed, 0, summed);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_GT(summed, 1000);
}

TEST(TreeSum, NeverTakesForASumWhatIsNone) {
  int summed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    run_tree_sum(seed, 1 + seed % 10, summed);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_GT(summed, 100);
}

TEST(TreeSum, AnotherOrderGivesOtherBits) {
  int differ = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    double in_a_row = 0;
    for (Rank rank = 0; rank < 8; ++rank) in_a_row += number_of(rank, i);
    differ += in_a_row != tree_sum([i](std::size_t at) { return number_of(static_cast<Rank>(at), i); }, 0, 8);
  }
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace rueda
