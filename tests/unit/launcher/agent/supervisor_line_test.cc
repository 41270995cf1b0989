// SPDX-License-Identifier: Apache-2.0
// An agent sends no more than ruedarun takes.
#include "launcher/agent/supervisor_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/launcher/agent/supervisor_ends.h"

namespace rueda {
namespace {

agents::Message output(int rank, std::size_t bytes) {
  return agents::Output{rank, agents::Stream::output, std::string(bytes, 'x')};
}

std::size_t cost_of(const std::vector<agents::Message>& messages) {
  std::size_t cost = 0;
  for (const agents::Message& message : messages) cost += agents::cost_of(agents::encode(message));
  return cost;
}

class SupervisorLineTest : public testing::TestWithParam<std::size_t> {};

TEST_P(SupervisorLineTest, SendsNoMoreThanIsTakenAndAllOfItInOrder) {
  Line line;
  ASSERT_EQ(line.agent.state(), SecureChannel::State::open);
  constexpr int kMessages = 1000;
  for (int i = 0; i < kMessages; ++i) line.agent.tell(output(i, GetParam()));
  int next = 0;
  while (next < kMessages) {
    const std::vector<agents::Message> come = line.arrived();
    ASSERT_FALSE(come.empty());
    EXPECT_LE(cost_of(come), agents::kMostAhead);
    for (const agents::Message& message : come) EXPECT_EQ(message, output(next++, GetParam()));
    EXPECT_EQ(line.agent.unsent() == 0, next == kMessages);
    line.ruedarun.send(agents::encode(agents::Credit{static_cast<std::uint32_t>(cost_of(come))}));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SupervisorLineTest, testing::Values(1, 1000, agents::kLongestOutput));

TEST(SupervisorLine, ACreditThatIsTooLargeCountsForNoMoreThanAll) {
  Line line;
  line.ruedarun.send(agents::encode(agents::Credit{1 << 30}));
  line.arrived();
  for (int i = 0; i < 100; ++i) line.agent.tell(output(i, agents::kLongestOutput));
  EXPECT_EQ(line.arrived().size(), 1u);
}

TEST(SupervisorLine, ACreditIsNoMessageOfTheJob) {
  Line line;
  line.ruedarun.send(agents::encode(agents::Credit{1}));
  line.ruedarun.send(agents::encode(agents::JobOver{}));
  EXPECT_EQ(line.agent.hear(), std::vector<agents::Message>{agents::JobOver{}});
}

}  // namespace
}  // namespace rueda
