// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/store_policy.h"

#include <gtest/gtest.h>

#include <chrono>

namespace rueda {
namespace {

constexpr std::size_t kMebibyte = 1 << 20;

// ns a byte each way.
struct Machine {
  double cached;
  double streamed;
};

class StoreChoiceTest : public testing::Test {
 protected:
  // Runs operations; how many of them were streamed.
  int run(Machine machine, int operations) {
    int streamed = 0;
    for (int i = 0; i < operations; ++i) {
      const bool streams = choice_.streams();
      streamed += streams;
      took(streams, streams ? machine.streamed : machine.cached);
    }
    return streamed;
  }

  void took(bool streamed, double each) {
    choice_.took(streamed, kMebibyte, std::chrono::nanoseconds(static_cast<std::int64_t>(each * kMebibyte)));
  }

  StorePolicy choice_;
};

TEST_F(StoreChoiceTest, TriesNothingWhereLinesComeFast) { EXPECT_EQ(run({0.03, 0.01}, 10'000), 0); }

TEST_F(StoreChoiceTest, StreamsWhereThatIsQuicker) {
  EXPECT_GE(run({0.6, 0.1}, 1'000), 930);  // but for trials, four operations each
  EXPECT_GE(run({0.6, 0.1}, 10'000), 9'800);
}

TEST_F(StoreChoiceTest, TriesInVainEverMoreRarely) {
  EXPECT_LE(run({0.15, 0.3}, 1'000), 12);
  EXPECT_LE(run({0.15, 0.3}, 10'000), 40);
}

TEST_F(StoreChoiceTest, NoticesThatCoresHaveMoved) {
  run({0.03, 0.15}, 1'000);
  EXPECT_GE(run({0.6, 0.1}, 100), 60);       // apart
  EXPECT_LE(run({0.03, 0.15}, 1'000), 300);  // and together again
}

TEST_F(StoreChoiceTest, NoticesThatSoonHoweverOftenItHasTriedInVain) {
  run({0.09, 0.3}, 100'000);
  EXPECT_GE(run({0.3, 0.1}, 100), 70);
}

// What was streamed is in memory, whence the first operations after it get its lines.
TEST_F(StoreChoiceTest, JudgesTheCacheByLaterOperations) {
  run({0.6, 0.1}, 1'000);
  int cached = 0;  // since the last one that was streamed
  int streamed = 0;
  for (int i = 0; i < 1'000; ++i) {
    const bool streams = choice_.streams();
    cached = streams ? 0 : cached + 1;
    took(streams, streams ? 0.1 : cached <= 3 ? 0.6 : 0.05);
    streamed += streams;
  }
  EXPECT_LE(streamed, 300);
}

TEST_F(StoreChoiceTest, IsNotMisledByAnOperationThatLostItsCore) {
  run({0.03, 0.15}, 100);
  for (int i = 0; i < 100; ++i) {
    took(false, 100);
    EXPECT_EQ(run({0.03, 0.15}, 20), 0);
  }
}

TEST_F(StoreChoiceTest, TakesNoTimeOfTheOtherWayForATrial) {
  const bool before = choice_.streams();
  for (int i = 0; i < 100; ++i) took(!before, 0.001);  // begun when that was the way
  EXPECT_EQ(choice_.streams(), before);
  choice_.took(before, 0, std::chrono::seconds(1));  // an empty part
  EXPECT_EQ(run({0.03, 0.01}, 100), 0);
}

}  // namespace
}  // namespace rueda
