// SPDX-License-Identifier: Apache-2.0
// The curves of a job's speed stay bounded, and follow an elastic job back.
#include "launcher/view/speed_history.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

using nlohmann::json;

TEST(SpeedHistory, HasACurveForEachSpeedThatIsKnown) {
  SpeedHistory history;
  EXPECT_EQ(history.as_json(), json::object());
  history.add(10, 0, 5);
  history.add(20, 100, 4);
  EXPECT_EQ(history.as_json(),
            json::parse(R"({"samples/s": [[20, 100.0]], "ms a step": [[10, 5.0], [20, 4.0]]})"));
}

TEST(SpeedHistory, StaysBounded) {
  SpeedHistory history;
  for (std::uint64_t step = 1; step <= 100'000; ++step) history.add(step, 1, static_cast<double>(step));
  const json points = history.as_json()["ms a step"];
  EXPECT_LT(points.size(), 1024u);
  EXPECT_GE(points.size(), 512u);
  EXPECT_EQ(points.front()[0], 1);
  EXPECT_GT(points.back()[0], 99'000);
}

TEST(SpeedHistory, CallsOfOneStepCountOnceAndTheLastOneStays) {
  for (const int calls : {1, 2, 3, 4}) {
    SpeedHistory history;
    for (std::uint64_t step = 1; step <= 20'000; ++step)
      for (int call = 1; call <= calls; ++call) history.add(step, 0, call);
    const json points = history.as_json()["ms a step"];
    EXPECT_GE(points.size(), 512u) << calls;
    EXPECT_GT(points.back()[0], 19'900) << calls;
    for (const json& point : points) EXPECT_EQ(point[1], calls);
  }
}

TEST(SpeedHistory, StepsGoUpwards) {
  SpeedHistory history;
  for (const std::uint64_t step : {10, 20, 30, 15}) history.add(step, 1, 1);
  EXPECT_EQ(history.as_json()["samples/s"], json::parse("[[10, 1.0], [15, 1.0]]"));
}

}  // namespace
}  // namespace rueda
