// SPDX-License-Identifier: Apache-2.0
#include "core/control/scheduling/coordinator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace rueda {
namespace {

using std::chrono::milliseconds;

SharedRequest request_of(const std::string& name, Operation operation, std::int64_t elements = 4) {
  Request request;
  request.name = name;
  request.operation = operation;
  request.shape = {elements};
  return std::make_shared<const Request>(std::move(request));
}

class CoordinatorTest : public testing::Test {
 protected:
  // The names of the tensors in the Plans that are due.
  std::vector<std::string> call(milliseconds at, bool others_on_their_way = true) {
    std::vector<std::string> names;
    for (const Plan& plan : coordinator_.call(start_ + at, others_on_their_way)) {
      for (const PlanTensor& tensor : plan.tensors) names.push_back(tensor.request->name);
    }
    return names;
  }
  void ready(const std::string& name, Operation operation, milliseconds at, std::int64_t elements = 4) {
    coordinator_.ready(request_of(name, operation, elements), {}, start_ + at);
  }

  using Names = std::vector<std::string>;
  const Time start_{milliseconds(1000)};
  Coordinator coordinator_{FusionPlanner({.fusion_threshold = 1 << 20, .linger = milliseconds(5)},
                                         [](Plan&) { return std::uint8_t{0}; }),
                           {milliseconds(5), 1 << 20, 0}};
};

TEST_F(CoordinatorTest, TensorsLingerForOthersThatMayShareTheirBuffer) {
  ready("a", Operation::allreduce, milliseconds(0));
  EXPECT_EQ(call(milliseconds(1)), Names());
  ready("b", Operation::reduce, milliseconds(2));
  EXPECT_EQ(call(milliseconds(4)), Names());
  EXPECT_EQ(call(milliseconds(5)), (Names{"a", "b"}));
  ready("c", Operation::allreduce, milliseconds(6));
  EXPECT_EQ(call(milliseconds(6), false), Names{"c"});
}

// Nothing can share the buffer of a broadcast or a message.
TEST_F(CoordinatorTest, OthersAreCalledAtOnce) {
  ready("a", Operation::allreduce, milliseconds(0));
  ready("b", Operation::broadcast, milliseconds(0));
  ready("c", Operation::allreduce, milliseconds(0));
  ready("d", Operation::message, milliseconds(1));
  EXPECT_EQ(call(milliseconds(1)), (Names{"b", "d"}));
  EXPECT_EQ(call(milliseconds(2)), Names());
  ready("e", Operation::barrier, milliseconds(3));
  EXPECT_EQ(call(milliseconds(3)), Names{"e"});
  EXPECT_EQ(call(milliseconds(5)), (Names{"a", "c"}));
  EXPECT_TRUE(coordinator_.idle());
}

// Bytes that need no buffer fill none.
TEST_F(CoordinatorTest, LargeOnesDoNotEndTheLingeringOfOthers) {
  ready("a", Operation::allreduce, milliseconds(0));
  ready("b", Operation::broadcast, milliseconds(0), 1 << 20);
  EXPECT_EQ(call(milliseconds(1)), Names{"b"});
  ready("c", Operation::message, milliseconds(1), 1 << 20);
  EXPECT_EQ(call(milliseconds(2)), Names{"c"});
  EXPECT_EQ(call(milliseconds(3)), Names());
  ready("d", Operation::allreduce, milliseconds(3), 1 << 20);
  EXPECT_EQ(call(milliseconds(3)), (Names{"a", "d"}));
}

TEST_F(CoordinatorTest, AGroupStaysTogether) {
  Request first, second;
  first.name = "g.0";
  second.name = "g.1";
  first.shape = second.shape = {4};
  second.operation = Operation::allgather;
  second.follows = first.name;
  first.others.push_back(second);
  coordinator_.ready(std::make_shared<const Request>(first), {}, start_);
  EXPECT_EQ(call(milliseconds(1)), Names());
  EXPECT_EQ(call(milliseconds(5)), (Names{"g.0", "g.1"}));
}

}  // namespace
}  // namespace rueda
