// SPDX-License-Identifier: Apache-2.0
// Costs that are recovered from measured times, and steps that are predicted from them.
#include "core/control/autotune/cost_model.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr double kPerPlan = 20e-6;
constexpr double kPerByte = 0.5e-9;

TEST(CostLine, IsRecoveredFromNoisyTimesWithOutliers) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> noise(0, 0.05);
    std::uniform_real_distribution<double> chance(0, 1);
    CostLine line;
    for (int i = 0; i < 200; ++i) {
      const double plans = 1 << (random() % 6), bytes = plans * (1024 << (random() % 10));
      const double disturbed = chance(random) < 0.15 ? 5 + 20 * chance(random) : 1;
      line.add(plans, bytes, (kPerPlan * plans + kPerByte * bytes) * noise(random) * disturbed);
    }
    EXPECT_NEAR(line.fit().per_plan, kPerPlan, 0.05 * kPerPlan) << "seed " << seed;
    EXPECT_NEAR(line.fit().per_byte, kPerByte, 0.05 * kPerByte) << "seed " << seed;
  }
}

TEST(CostLine, ForgetsWhatIsLongAgo) {
  CostLine line;
  for (std::size_t i = 0; i < 4 * CostLine::kMost; ++i)
    line.add(1, i % 2 == 0 ? 1e3 : 1e6, i < 2 * CostLine::kMost ? 1.0 : (i % 2 == 0 ? 1e-3 : 2e-3));
  EXPECT_NEAR(line.fit().per_byte * 999e3, 1e-3, 1e-9);
}

TEST(CostLine, PlansOfOneSizeTellTheirOwnTime) {
  CostLine sized, empty;
  for (int i = 0; i < 10; ++i) {
    sized.add(1, 1000, 5e-5);
    empty.add(2, 0, 5e-5);
  }
  EXPECT_NEAR(sized.fit().per_plan + 1000 * sized.fit().per_byte, 5e-5, 1e-12);
  EXPECT_NEAR(empty.fit().per_plan, 2.5e-5, 1e-12);
  EXPECT_EQ(empty.fit().per_byte, 0);
}

PlanTime plan_time(int planned_us, int finished_us, std::int64_t bytes, bool last, std::uint8_t backend = 0) {
  return {backend,
          1024,
          bytes,
          Operation::allreduce,
          Time(microseconds(planned_us)),
          Time(microseconds(finished_us)),
          last};
}

TEST(CostModel, WorksThatOverlapShareTheirTime) {
  CostModel model;
  // Two Plans planned together that end in one turn of the background thread: 100 µs for both.
  for (int begin = 0; begin < 10000; begin += 1000) {
    model.add(plan_time(begin, begin + 100, 1000, false));
    model.add(plan_time(begin, begin + 100, 1000, true));
  }
  const CostLine* line = model.line(0, 1024);
  ASSERT_NE(line, nullptr);
  EXPECT_NEAR(2 * line->fit().per_plan + 2000 * line->fit().per_byte, 100e-6, 1e-9);
  EXPECT_EQ(model.line(1, 1024), nullptr);
}

TEST(CostModel, BackendsAreToldApartAndTheNearestChunkCounts) {
  CostModel model;
  PlanTime slow = plan_time(0, 90, 1000, true, 2);
  model.add(plan_time(0, 10, 1000, true, 1));
  model.add(slow);
  slow.chunk_bytes = 1 << 20;
  slow.planned = Time(microseconds(200));
  slow.finished = Time(microseconds(205));
  model.add(slow);
  auto of = [&](std::uint8_t backend, std::int64_t chunk) {
    const CostLine::Fit fit = model.line(backend, chunk)->fit();
    return fit.per_plan + 1000 * fit.per_byte;
  };
  EXPECT_NEAR(of(1, 1024), 10e-6, 1e-9);
  EXPECT_NEAR(of(2, 4096), 80e-6, 1e-9);  // behind the one before
  EXPECT_NEAR(of(2, 512 << 10), 5e-6, 1e-9);
}

StepTrace trace_of(int tensors, std::int64_t elements, Duration apart) {
  StepTrace trace;
  for (int i = 0; i < tensors; ++i) {
    auto request = std::make_shared<const Request>(request_for("x" + std::to_string(i), {elements}));
    trace.arrivals.push_back({i * apart, i + 1 < tensors, {std::move(request)}});
  }
  return trace;
}

std::uint8_t zero(Plan&) { return 0; }

TEST(CostModel, PredictsWhatTheCallerWouldDo) {
  CostModel model;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t bytes = i % 2 == 0 ? 4096 : 65536;
    model.add(plan_time(i * 1000, i * 1000 + (bytes == 4096 ? 20 : 50), bytes, true));
  }
  const StepTrace trace = trace_of(4, 1024, milliseconds(1));  // 4 KiB each
  const Prediction lingering = model.predict(trace, {1 << 20, milliseconds(100), 1024}, zero, {});
  ASSERT_EQ(lingering.calls.size(), 1u);
  EXPECT_EQ(lingering.calls[0].bytes, 4 * 4096);
  EXPECT_EQ(lingering.calls[0].at, milliseconds(3));
  EXPECT_NEAR(*lingering.seconds, 3e-3 + 26e-6, 1e-6);
  const Prediction single = model.predict(trace, {0, milliseconds(100), 1024}, zero, {});
  ASSERT_EQ(single.calls.size(), 4u);
  EXPECT_NEAR(*single.seconds, 3e-3 + 20e-6, 1e-6);
  const Prediction short_linger = model.predict(trace, {1 << 20, microseconds(1500), 1024}, zero, {});
  ASSERT_EQ(short_linger.calls.size(), 2u);
  EXPECT_EQ(short_linger.calls[0].at, microseconds(1500));
  // A backend that was never measured cannot be predicted.
  auto second = [](Plan&) { return std::uint8_t{1}; };
  EXPECT_FALSE(model.predict(trace, {1 << 20, {}, 1024, 0}, zero, second).seconds);
}

}  // namespace
}  // namespace rueda
