// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/view/lateness.h"

namespace rueda {
namespace {

Lateness lateness(double ms, std::optional<std::uint64_t> since, int rank = 2) {
  Lateness all;
  all.ranks.push_back({.rank = rank, .late_ms = ms, .since_step = since});
  return all;
}

TEST(Stragglers, AreToldOnceTheirMomentAndSizeAreKnown) {
  Stragglers stragglers;
  EXPECT_TRUE(stragglers.hear(lateness(3, {})).empty());
  EXPECT_TRUE(stragglers.hear(lateness(3, 58)).empty()) << "one look";
  EXPECT_TRUE(stragglers.hear(lateness(60, 398)).empty()) << "another moment";
  EXPECT_TRUE(stragglers.hear(lateness(100, 400)).empty()) << "another size";
  const auto news = stragglers.hear(lateness(101, 400));
  ASSERT_EQ(news.size(), 1);
  EXPECT_EQ(news[0].late.since_step, 400);
  EXPECT_FALSE(news[0].is_change);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(stragglers.hear(lateness(95 + i % 10, 400)).empty()) << "once";
}

TEST(Stragglers, ALatenessThatHasDoubledIsToldAgain) {
  Stragglers stragglers;
  stragglers.hear(lateness(4, 10));
  EXPECT_EQ(stragglers.hear(lateness(4, 10)).size(), 1);
  EXPECT_TRUE(stragglers.hear(lateness(9, 10)).empty());
  const auto news = stragglers.hear(lateness(9, 10));
  ASSERT_EQ(news.size(), 1);
  EXPECT_TRUE(news[0].is_change);
  EXPECT_TRUE(stragglers.hear(lateness(9, 10)).empty());
}

TEST(Stragglers, ARankThatIsPunctualForAMomentIsTheSameStraggler) {
  Stragglers stragglers;
  stragglers.hear(lateness(4, 10));
  EXPECT_EQ(stragglers.hear(lateness(4, 10)).size(), 1);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(stragglers.hear(lateness(0, {})).empty());
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(stragglers.hear(lateness(4, 10)).empty());
  }
  for (int i = 0; i < 40; ++i) stragglers.hear(lateness(0, {}));
  stragglers.hear(lateness(4, 900));
  EXPECT_EQ(stragglers.hear(lateness(4, 900)).size(), 1) << "it is late anew";
}

TEST(Stragglers, ALatenessKeepsItsMomentWhenItsStepsAreForgotten) {
  Stragglers stragglers;
  stragglers.hear(lateness(4, 400));
  stragglers.hear(lateness(4, 400));
  Lateness now = lateness(4, 402);
  stragglers.keep_moments(now, 300);
  EXPECT_EQ(now.ranks[0].since_step, 402) << "the step is found anew as long as it is there";
  for (std::uint64_t oldest = 450; oldest < 3000; oldest += 50) {
    now = lateness(4, oldest + 70);
    stragglers.keep_moments(now, oldest);
    EXPECT_EQ(now.ranks[0].since_step, 400);
    EXPECT_TRUE(stragglers.hear(now).empty());
  }
}

TEST(Stragglers, EachRankIsToldForItself) {
  Stragglers stragglers;
  Lateness two = lateness(5, 10, 1);
  two.ranks.push_back({.rank = 3, .late_ms = 4, .since_step = 20});
  EXPECT_TRUE(stragglers.hear(two).empty());
  EXPECT_EQ(stragglers.hear(two).size(), 2);
}

}  // namespace
}  // namespace rueda
