// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/feed_clock.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

TEST(FeedClock, TheFastestMessageTellsBest) {
  FeedClock clock;
  clock.note(0, 1000, 50 + 30);  // 30 on its way
  clock.note(0, 2000, 1050 + 5);
  clock.note(0, 3000, 2050 + 90);
  EXPECT_EQ(clock.job_time(clock.common_time(0, 4000, 0)), 3055);
  EXPECT_EQ(clock.common_time(3055), 4000);
}

TEST(FeedClock, AnOffsetToRank0sClockCountsMore) {
  FeedClock clock;
  clock.note(0, 1000, 10);
  clock.note(1, 9000, 100);
  EXPECT_EQ(clock.job_time(clock.common_time(1, 9000, -8000)), 10);
  EXPECT_EQ(clock.job_time(clock.common_time(1, 9000, 0)), 100) << "it is not known yet";
  EXPECT_EQ(clock.job_time(clock.common_time(0, 1000, 0)), 10);
}

TEST(FeedClock, TimesOnRank0sClockStayWhenAFasterMessageComes) {
  FeedClock clock;
  clock.note(0, 1000, 500);
  const std::int64_t here = clock.common_time(0, 1000, 0), there = clock.common_time(1, 9000, -8000);
  EXPECT_EQ(here, there);
  clock.note(0, 2000, 1001);  // 499 less on its way
  EXPECT_EQ(clock.common_time(0, 1000, 0), here);
  EXPECT_EQ(clock.common_time(1, 9000, -8000), there);
  EXPECT_EQ(clock.job_time(here), 1);
}

TEST(FeedClock, FollowsRank0ToAnotherHost) {
  FeedClock clock;
  clock.note(0, 1000, 10);
  clock.note(1, 9000, 100);
  clock.put_rank_0_on(1);
  EXPECT_EQ(clock.job_time(clock.common_time(1, 9000, 0)), 100);
  EXPECT_EQ(clock.job_time(clock.common_time(0, 1000, 7910)), 10) << "host 1's clock is ahead by 7910";
}

}  // namespace
}  // namespace rueda
