// SPDX-License-Identifier: Apache-2.0
#include "launcher/stop_after.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/options.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Act = StopAfter::Act;

const StopAfter::Time kBegin{};

TEST(StopAfter, TimesAreRead) {
  EXPECT_EQ(read_time("--stop-after", "90"), 90s);
  EXPECT_EQ(read_time("--stop-after", "5s"), 5s);
  EXPECT_EQ(read_time("--stop-after", "10m"), 600s);
  EXPECT_EQ(read_time("--stop-after", "2h"), 7200s);
  for (const char* text : {"", "0", "-1", "1.5s", "m", "10 m", "10d", "s10", "99999999999999999999"}) {
    try {
      read_time("--stop-after", text);
      FAIL() << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--stop-after is '"));
    }
  }
}

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
