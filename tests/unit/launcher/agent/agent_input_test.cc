// SPDX-License-Identifier: Apache-2.0
// Text on its way to rank 0, through a pipe or as the keys of a terminal.
#include "launcher/agent/agent_input.h"

#include <gtest/gtest.h>
#include <termios.h>

namespace rueda {
namespace {

TEST(AgentInput, APipeTakesTheTextAndEnds) {
  AgentInput input;
  const Descriptor read_end = input.open();
  input.add("text");
  input.end();
  EXPECT_GE(input.descriptor(), 0);
  EXPECT_EQ(input.write(), 4U);
  EXPECT_EQ(input.descriptor(), -1);
  EXPECT_EQ(read_some(read_end.number()), "text");
  EXPECT_EQ(read_some(read_end.number()), "");
}

TEST(AgentInput, ATerminalGetsKeysAndTheKeyOfTheEnd) {
  const auto terminal = std::make_shared<PseudoTerminal>(TerminalSize{});
  AgentInput input;
  input.open(terminal);
  EXPECT_EQ(input.terminal(), terminal.get());
  input.add("one");
  input.skip(2);
  input.end();
  EXPECT_EQ(input.write(), 3U + 2U + 2U);
  EXPECT_EQ(read_some(terminal->programs_end()), "one");
  EXPECT_EQ(read_some(terminal->programs_end()), "") << "the end of the input";
  EXPECT_EQ(errno, 0);
}

TEST(AgentInput, AProgramThatReadsNothingBlocksNobodyAndOneThatHasEndedLosesIt) {
  const auto terminal = std::make_shared<PseudoTerminal>(TerminalSize{});
  termios raw{};
  ASSERT_EQ(::tcgetattr(terminal->programs_end(), &raw), 0);
  ::cfmakeraw(&raw);
  ASSERT_EQ(::tcsetattr(terminal->programs_end(), TCSANOW, &raw), 0);
  AgentInput input;
  input.open(terminal);
  input.add(std::string(4 << 20, 'x'));
  const auto written = input.write();
  EXPECT_LT(written, 4U << 20);
  EXPECT_GE(input.descriptor(), 0) << "there is more";
  terminal->close_programs_end();
  input.leave_terminal();
  EXPECT_EQ(input.descriptor(), -1);
  EXPECT_EQ(written + input.write(), 4U << 20);
  input.add("more");
  EXPECT_EQ(input.write(), 4U);
}

}  // namespace
}  // namespace rueda
