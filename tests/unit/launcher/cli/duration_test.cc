// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/duration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/options.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(Duration, IsRead) {
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

}  // namespace
}  // namespace rueda
