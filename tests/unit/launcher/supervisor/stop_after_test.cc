// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/stop_after.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Act = StopAfter::Act;

const StopAfter::Time kBegin{};

TEST(StopAfter, AsksOnceAndThenGivesUp) {
  StopAfter stop(30s, 10s);
  EXPECT_FALSE(stop.next_time());
  stop.on_start(kBegin);
  EXPECT_EQ(stop.next_time(), kBegin + 30s);
  EXPECT_EQ(stop.next_act(kBegin + 29s), Act::nothing);
  EXPECT_EQ(stop.next_act(kBegin + 31s), Act::ask);
  EXPECT_EQ(stop.asked_at(), kBegin + 31s);
  EXPECT_EQ(stop.next_act(kBegin + 40s), Act::nothing);
  EXPECT_EQ(stop.next_act(kBegin + 41s), Act::give_up);
  EXPECT_EQ(stop.next_act(kBegin + 99s), Act::nothing);
  EXPECT_FALSE(stop.next_time());
}

TEST(StopAfter, NothingIsDueWithoutATimeOrAfterTheEnd) {
  StopAfter never(0s, 10s);
  never.on_start(kBegin);
  EXPECT_FALSE(never.next_time());
  StopAfter ended(30s, 10s);
  ended.on_start(kBegin);
  ended.on_end();
  EXPECT_EQ(ended.next_act(kBegin + 31s), Act::nothing);
  EXPECT_FALSE(ended.asked_at());
}

}  // namespace
}  // namespace rueda
