// SPDX-License-Identifier: Apache-2.0
// Which neighbours are tried, and where the climb goes on.
#include "core/control/autotune/hill_climb.h"

#include <gtest/gtest.h>

#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

constexpr std::int64_t kKibibyte = 1 << 10, kMebibyte = 1 << 20;
const TuningParameters kClimbStart{64 * kMebibyte, std::chrono::milliseconds(1), 256 * kKibibyte};

// 16 tensors of 256 KiB that are ready at once.
StepTrace step() {
  StepTrace trace{{{}}};
  for (int i = 0; i < 16; ++i)
    trace.arrivals[0].requests.push_back(
        std::make_shared<const Request>(request_for("x" + std::to_string(i), {64 * kKibibyte})));
  return trace;
}

StepReplay two_routes() {
  return {[](Plan&) { return std::uint8_t{0}; }, [](Plan&) { return std::uint8_t{1}; }};
}

TEST(HillClimb, PassesOverWhatMakesTheSamePlansAndGoesOnWhereItWon) {
  const StepReplay replay = two_routes();
  HillClimb climb(replay, kClimbStart, kClimbStart, 100);
  EXPECT_EQ(climb.next(step())->fusion_threshold, kMebibyte);  // up to 4 MiB there is one Plan
  climb.won({kMebibyte, kClimbStart.linger, 256 * kKibibyte}, 0.2);
  const auto further = climb.next(step());
  ASSERT_TRUE(further);
  EXPECT_EQ(further->fusion_threshold, 256 * kKibibyte);
  climb.lost();
  const auto other = climb.next(step());
  ASSERT_TRUE(other);
  EXPECT_NE(other->fusion_threshold, 64 * kKibibyte);  // that way lost
  EXPECT_EQ(climb.tried(), 3);
  EXPECT_EQ(climb.base().fusion_threshold, kMebibyte);
  EXPECT_EQ(climb.start(), kClimbStart);
  EXPECT_NEAR(climb.gain(), 0.2, 1e-9);
}

TEST(HillClimb, TriesEachNeighbourOnceWithinBounds) {
  const StepReplay replay = two_routes();
  HillClimb climb(replay, kClimbStart, kClimbStart, 100);
  std::vector<TuningParameters> tried{kClimbStart};
  while (const auto candidate = climb.next(step())) {
    EXPECT_EQ(std::ranges::count(tried, *candidate), 0);
    EXPECT_GE(candidate->chunk_bytes, 64 * kKibibyte);
    EXPECT_LE(candidate->chunk_bytes, 4 * kMebibyte);
    EXPECT_EQ(candidate->linger, kClimbStart.linger);  // it makes no other Plans
    const int changed = (candidate->fusion_threshold != kClimbStart.fusion_threshold) +
                        (candidate->chunk_bytes != kClimbStart.chunk_bytes) +
                        (candidate->route_bytes != kClimbStart.route_bytes);
    EXPECT_EQ(changed, 1);
    tried.push_back(*candidate);
    climb.lost();
  }
  EXPECT_GE(climb.tried(), 6);  // chunks in four steps, fusion, route
  EXPECT_EQ(climb.base(), kClimbStart);
}

TEST(HillClimb, MakesNoPlansTwice) {
  const StepReplay replay = two_routes();
  HillClimb climb(replay, kClimbStart, kClimbStart, 100);
  std::vector<std::vector<StepReplay::Call>> known{replay.calls(step(), kClimbStart)};
  while (const auto candidate = climb.next(step())) {
    std::vector<StepReplay::Call> calls = replay.calls(step(), *candidate);
    EXPECT_EQ(std::ranges::count(known, calls), 0) << difference(kClimbStart, *candidate);
    known.push_back(std::move(calls));
    // A lower route wins, so a higher one makes the Plans of the start again.
    candidate->route_bytes < climb.base().route_bytes ? climb.won(*candidate, 0.1) : climb.lost();
  }
  EXPECT_LT(climb.base().route_bytes, 4 * kMebibyte);
}

TEST(HillClimb, DoesNotTryDefaultsThatMakeKnownPlans) {
  const StepReplay replay = two_routes();
  TuningParameters start = kClimbStart;
  start.fusion_threshold = 16 * kMebibyte;  // one Plan, as with the defaults
  HillClimb climb(replay, kClimbStart, start, 100);
  while (const auto candidate = climb.next(step())) {
    EXPECT_NE(*candidate, kClimbStart);
    climb.lost();
  }
}

TEST(HillClimb, TriesTheDefaultsAndNoMoreThanItMay) {
  const StepReplay replay = two_routes();
  HillClimb none(replay, kClimbStart, kClimbStart, 0);
  EXPECT_FALSE(none.next(step()));
  TuningParameters start = kClimbStart;
  start.fusion_threshold = 0;
  HillClimb climb(replay, kClimbStart, start, 100);
  bool defaults = false;
  while (const auto candidate = climb.next(step())) {
    defaults |= *candidate == kClimbStart;
    climb.lost();
  }
  EXPECT_TRUE(defaults);
}

}  // namespace
}  // namespace rueda
