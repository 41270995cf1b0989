// SPDX-License-Identifier: Apache-2.0
// Ctrl-C is for rank 0 or for the job.
#include "launcher/agent/terminal_keys.h"

#include <gmock/gmock.h>
#include <signal.h>

namespace rueda {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const TerminalKeys::Time kTyped{};
const TerminalModes kLines{
    .makes_signals = true, .takes_lines = true, .interrupt = 3, .quit = 0x1c, .suspend = 0x1a};
const TerminalModes kPrompt{
    .makes_signals = true, .takes_lines = false, .interrupt = 3, .quit = 0x1c, .suspend = 0x1a};
const TerminalModes kRaw{
    .makes_signals = false, .takes_lines = false, .interrupt = 3, .quit = 0x1c, .suspend = 0x1a};

TEST(TerminalKeys, OrdinaryKeysAreForTheTerminal) {
  TerminalKeys keys;
  const std::string text("a\r\0\x04", 4);
  EXPECT_EQ(keys.sort(text, kLines, true, kTyped).text, text);
  EXPECT_FALSE(keys.next_time());
}

TEST(TerminalKeys, AnInterruptIsForRank0AndThenForTheJob) {
  TerminalKeys keys;
  const auto sorted = keys.sort(
      "a\x03"
      "b",
      kLines, true, kTyped);
  EXPECT_EQ(sorted.text, "ab");
  EXPECT_TRUE(sorted.interrupts_rank_0);
  EXPECT_THAT(sorted.signals_of_job, IsEmpty());
  EXPECT_EQ(keys.next_time(), kTyped + TerminalKeys::kPromptTime);
  EXPECT_FALSE(keys.interrupts_job(kTyped + 100ms, kLines));
  EXPECT_TRUE(keys.interrupts_job(kTyped + TerminalKeys::kPromptTime, kLines));
  EXPECT_FALSE(keys.next_time());
  EXPECT_TRUE(keys.rank_0_has_it());
  EXPECT_FALSE(keys.rank_0_has_it()) << "a later one is for it, too";
}

TEST(TerminalKeys, AnInterruptThatLeadsToAPromptWasForRank0) {
  TerminalKeys keys;
  EXPECT_TRUE(keys.sort("\x03", kLines, true, kTyped).interrupts_rank_0);
  EXPECT_FALSE(keys.interrupts_job(kTyped + 200ms, kPrompt));
  EXPECT_FALSE(keys.interrupts_job(kTyped + 10s, kLines));
  EXPECT_FALSE(keys.rank_0_has_it());
  EXPECT_TRUE(keys.sort("\x03", kLines, true, kTyped + 11s).interrupts_rank_0);
}

TEST(TerminalKeys, ASecondInterruptIsForTheJobAtOnce) {
  TerminalKeys keys;
  EXPECT_TRUE(keys.sort("\x03", kLines, true, kTyped).interrupts_rank_0);
  const auto second = keys.sort("\x03\x03", kLines, true, kTyped + 100ms);
  EXPECT_FALSE(second.interrupts_rank_0);
  EXPECT_THAT(second.signals_of_job, ElementsAre(SIGINT, SIGINT));
  EXPECT_FALSE(keys.next_time());
}

TEST(TerminalKeys, TheEndOfRank0AfterAnInterruptIsThatOfTheJob) {
  TerminalKeys keys;
  EXPECT_FALSE(keys.on_end_of_rank_0());
  static_cast<void>(keys.sort("\x03", kLines, true, kTyped));
  EXPECT_TRUE(keys.on_end_of_rank_0());
  EXPECT_FALSE(keys.on_end_of_rank_0());
}

TEST(TerminalKeys, AProgramThatEditsLinesHasItsKeysButCtrlZ) {
  TerminalKeys keys;
  const auto sorted = keys.sort("\x03\x1c\x1a", kPrompt, true, kTyped);
  EXPECT_EQ(sorted.text, "\x03\x1c");
  EXPECT_THAT(sorted.signals_of_job, ElementsAre(SIGTSTP));
  EXPECT_EQ(keys.sort("\x03\x1c\x1a", kRaw, true, kTyped).text, "\x03\x1c\x1a");
}

TEST(TerminalKeys, AProgramOfAShellHasItsKeys) {
  TerminalKeys keys;
  EXPECT_EQ(keys.sort("\x03\x1a", kLines, false, kTyped).text, "\x03\x1a");
}

TEST(TerminalKeys, OtherSignalsAreForTheJob) {
  TerminalKeys keys;
  EXPECT_THAT(keys.sort("\x1c\x1a", kLines, true, kTyped).signals_of_job, ElementsAre(SIGQUIT, SIGTSTP));
  TerminalModes none = kLines;
  none.interrupt = 0;
  EXPECT_EQ(keys.sort(std::string(1, '\0'), none, true, kTyped).text.size(), 1U) << "no key has that meaning";
}

}  // namespace
}  // namespace rueda
