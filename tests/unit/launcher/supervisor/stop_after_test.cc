// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/stop_after.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

using namespace std::chrono_literals;
using StopAct = StopAfter::Act;

const StopAfter::Time kJobBegin{};

TEST(StopAfter, AsksOnceAndThenGivesUp) {
  StopAfter stop(30s, 10s);
  EXPECT_FALSE(stop.next_time());
  stop.on_start(kJobBegin);
  EXPECT_EQ(stop.next_time(), kJobBegin + 30s);
  EXPECT_EQ(stop.next_act(kJobBegin + 29s), StopAct::nothing);
  EXPECT_EQ(stop.next_act(kJobBegin + 31s), StopAct::ask);
  EXPECT_EQ(stop.asked_at(), kJobBegin + 31s);
  EXPECT_EQ(stop.next_act(kJobBegin + 40s), StopAct::nothing);
  EXPECT_EQ(stop.next_act(kJobBegin + 41s), StopAct::give_up);
  EXPECT_EQ(stop.next_act(kJobBegin + 99s), StopAct::nothing);
  EXPECT_FALSE(stop.next_time());
}

TEST(StopAfter, AsksAtAWish) {
  StopAfter stop(30s, 10s);
  stop.on_start(kJobBegin);
  stop.ask_now(kJobBegin + 5s);
  EXPECT_EQ(stop.next_act(kJobBegin + 5s), StopAct::ask);
  stop.ask_now(kJobBegin + 6s);
  EXPECT_EQ(stop.next_act(kJobBegin + 6s), StopAct::nothing) << "once";
  EXPECT_EQ(stop.next_act(kJobBegin + 39s), StopAct::nothing) << "the job has its time";
  EXPECT_EQ(stop.next_act(kJobBegin + 40s), StopAct::give_up);
}

TEST(StopAfter, AWishAloneHasNoEnd) {
  StopAfter stop(0s, 10s);
  stop.on_start(kJobBegin);
  stop.ask_now(kJobBegin + 5s);
  EXPECT_EQ(stop.next_act(kJobBegin + 5s), StopAct::ask);
  EXPECT_FALSE(stop.next_time());
  EXPECT_EQ(stop.next_act(kJobBegin + 9999s), StopAct::nothing);
}

TEST(StopAfter, NothingIsDueWithoutATimeOrAfterTheEnd) {
  StopAfter never(0s, 10s);
  never.on_start(kJobBegin);
  EXPECT_FALSE(never.next_time());
  StopAfter ended(30s, 10s);
  ended.on_start(kJobBegin);
  ended.on_end();
  EXPECT_EQ(ended.next_act(kJobBegin + 31s), StopAct::nothing);
  EXPECT_FALSE(ended.asked_at());
}

}  // namespace
}  // namespace rueda
