// SPDX-License-Identifier: Apache-2.0
#include "core/control/scheduling/fusion_planner.h"

#include <gtest/gtest.h>

#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

SharedRequest shared(const std::string& name, Shape shape = {4}) {
  return std::make_shared<const Request>(request_for(name, std::move(shape)));
}

TEST(FusionPlanner, FusesWhatFitsAndKeepsTheOrder) {
  FusionPlanner planner({256, {}, 1024}, [](const Plan&) { return std::uint8_t{0}; });
  Request doubles = request_for("d");
  doubles.dtype = DataType::float64;
  const std::vector<Plan> plans = planner.fuse({shared("a"), std::make_shared<const Request>(doubles),
                                                shared("b"), shared("big", {1000}), shared("c")});
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(names_of({plans[0]}), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(plans[0].tensors[1].offset, kFusionAlignment);
  EXPECT_EQ(plans[0].buffer_bytes, 3 * kFusionAlignment);
  EXPECT_EQ(names_of({plans[2]}), (std::vector<std::string>{"big"}));
}

TEST(FusionPlanner, FusesWhatHasOneOrder) {
  FusionPlanner planner({1 << 20, {}, 1024}, [](const Plan&) { return std::uint8_t{0}; });
  Request fixed = request_for("f");
  fixed.reduction_order = ReductionOrder::fixed;
  const std::vector<Plan> plans =
      planner.fuse({shared("a"), std::make_shared<const Request>(fixed), shared("b")});
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].reduction_order, ReductionOrder::any);
  EXPECT_EQ(plans[1].reduction_order, ReductionOrder::fixed);
  EXPECT_EQ(names_of({plans[1]}), (std::vector<std::string>{"f"}));
}

TEST(FusionPlanner, FusesWhatIsOnOneKindOfDevice) {
  FusionPlanner planner({1 << 20, {}, 1024}, [](const Plan& plan) {
    return static_cast<std::uint8_t>(plan.device == DeviceKind::cuda ? 2 : 1);
  });
  auto there = [](const std::string& name) {
    Request request = request_for(name);
    request.device = DeviceKind::cuda;
    return std::make_shared<const Request>(request);
  };
  const std::vector<Plan> plans = planner.fuse({shared("a"), there("x"), shared("b"), there("y")});
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(names_of({plans[0]}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(plans[0].backend, 1);
  EXPECT_EQ(names_of({plans[1]}), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(plans[1].device, DeviceKind::cuda);
  EXPECT_EQ(plans[1].backend, 2);
}

TEST(FusionPlanner, FusesWhatGoesIntoOneGraph) {
  FusionPlanner planner({1 << 20, {}, 1024}, [](const Plan&) { return std::uint8_t{0}; });
  auto in_graph = [](const std::string& name, std::uint32_t number) {
    Request request = request_for(name);
    request.device = DeviceKind::cuda;
    request.capture = number;
    return std::make_shared<const Request>(request);
  };
  const std::vector<Plan> plans =
      planner.fuse({in_graph("a", 0), in_graph("x", 1), in_graph("y", 2), in_graph("z", 1)});
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(names_of({plans[1]}), (std::vector<std::string>{"x", "z"}));
  EXPECT_EQ(plans[1].capture, 1u);
  EXPECT_EQ(plans[2].capture, 2u);
}

// What a host keeps back belongs to one tensor.
TEST(FusionPlanner, LeavesAloneWhatSendsAShare) {
  FusionPlanner planner({1 << 20, {}, 1024}, [](const Plan&) { return std::uint8_t{0}; });
  auto thin = [](const std::string& name) {
    Request request = request_for(name);
    request.compression = Compression::topk;
    request.compression_share = 0.125;
    return std::make_shared<const Request>(request);
  };
  const std::vector<Plan> plans = planner.fuse({shared("a"), thin("x"), thin("y"), shared("b")});
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(names_of({plans[0]}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(names_of({plans[1]}), (std::vector<std::string>{"x"}));
  EXPECT_EQ(plans[1].compression, Compression::topk);
  EXPECT_EQ(plans[1].compression_share, 0.125);
}

// Who has joined counts nothing: that is one for a whole Plan.
TEST(FusionPlanner, FusesWhatIsMeasuredByTheSameRanks) {
  FusionPlanner planner({1 << 20, {}, 1024}, [](const Plan&) { return std::uint8_t{0}; });
  auto measured = [](const std::string& name) {
    Request request = request_for(name);
    request.measure = true;
    return std::make_shared<const Request>(request);
  };
  const std::vector<Plan> plans = planner.fuse({shared("a"),
                                                measured("b"),
                                                {measured("c"), RankSet::of(1)},
                                                shared("d"),
                                                {measured("e"), RankSet::of(1)},
                                                measured("f"),
                                                {measured("g"), RankSet(1, 3)}});
  ASSERT_EQ(plans.size(), 4u);
  EXPECT_EQ(names_of({plans[0]}), (std::vector<std::string>{"a", "d"}));
  EXPECT_FALSE(plans[0].measure);
  EXPECT_EQ(names_of({plans[1]}), (std::vector<std::string>{"b", "f"}));
  EXPECT_TRUE(plans[1].measure && plans[1].joined.empty());
  EXPECT_EQ(names_of({plans[2]}), (std::vector<std::string>{"c", "e"}));
  EXPECT_TRUE(plans[2].measure);
  EXPECT_EQ(plans[2].joined, RankSet::of(1));
  EXPECT_EQ(plans[3].joined, RankSet(1, 3));
}

TEST(FusionPlanner, AThresholdOfZeroFusesNothing) {
  FusionPlanner planner({0, {}, 1024}, [](const Plan&) { return std::uint8_t{0}; });
  EXPECT_EQ(planner.fuse({shared("a"), shared("b")}).size(), 2u);
}

TEST(FusionPlanner, LargePlansTakeTheSecondBackend) {
  FusionPlanner planner(
      {128, {}, 1024, 128}, [](const Plan&) { return std::uint8_t{1}; },
      [](const Plan&) { return std::uint8_t{2}; });
  const std::vector<Plan> plans = planner.fuse({shared("a"), shared("big", {1000}), shared("b")});
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].backend, 1);  // a and b
  EXPECT_EQ(plans[1].backend, 2);
  planner.use({0, {}, 512});
  const std::vector<Plan> others = planner.fuse({shared("a"), shared("big", {1000}), shared("b")});
  ASSERT_EQ(others.size(), 3u);
  for (const Plan& plan : others) {
    EXPECT_EQ(plan.backend, 1);
    EXPECT_EQ(plan.chunk_bytes, 512);
  }
}

}  // namespace
}  // namespace rueda
