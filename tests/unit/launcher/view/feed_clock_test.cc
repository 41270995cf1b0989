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
  EXPECT_EQ(clock.job_time(0, 4000, 0), 3055);
}

TEST(FeedClock, AnOffsetToRank0sClockCountsMore) {
  FeedClock clock;
  clock.note(0, 1000, 10);
  clock.note(1, 9000, 100);
  EXPECT_EQ(clock.job_time(1, 9000, -8000), 10);
  EXPECT_EQ(clock.job_time(1, 9000, 0), 100) << "it is not known yet";
  EXPECT_EQ(clock.job_time(0, 1000, 0), 10);
}

}  // namespace
}  // namespace rueda
