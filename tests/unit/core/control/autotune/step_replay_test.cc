// SPDX-License-Identifier: Apache-2.0
// Recorded steps that are run through a Coordinator again.
#include "core/control/autotune/step_replay.h"

#include <gtest/gtest.h>

#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

StepTrace trace_of(int tensors, std::int64_t elements, Duration apart) {
  StepTrace trace;
  for (int i = 0; i < tensors; ++i) {
    auto request = std::make_shared<const Request>(request_for("x" + std::to_string(i), {elements}));
    trace.arrivals.push_back({i * apart, i + 1 < tensors, {std::move(request)}});
  }
  return trace;
}

std::uint8_t zero(Plan&) { return 0; }

TEST(StepReplay, DoesWhatTheCoordinatorWouldDo) {
  const StepReplay replay{zero, [](Plan&) { return std::uint8_t{1}; }};
  const StepTrace trace = trace_of(4, 1024, milliseconds(1));  // 4 KiB each
  const auto lingering = replay.calls(trace, {1 << 20, milliseconds(100), 1024});
  ASSERT_EQ(lingering.size(), 1u);
  EXPECT_EQ(lingering[0].bytes, 4 * 4096);
  EXPECT_EQ(lingering[0].at, milliseconds(3));
  EXPECT_EQ(lingering, replay.calls(trace, {2 << 20, milliseconds(50), 1024}));
  EXPECT_EQ(replay.calls(trace, {0, milliseconds(100), 1024}).size(), 4u);
  const auto short_linger = replay.calls(trace, {1 << 20, microseconds(1500), 1024});
  ASSERT_EQ(short_linger.size(), 2u);
  EXPECT_EQ(short_linger[0].at, microseconds(1500));
  EXPECT_EQ(replay.calls(trace, {1 << 20, {}, 1024, 0})[0].backend, 1);
}

}  // namespace
}  // namespace rueda
