// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace rueda {
namespace {

TEST(Pace, IsTheMeanOfTheLastHundredSteps) {
  Pace pace;
  EXPECT_EQ(pace.step_ms(), 0);
  std::int64_t at = 0;
  for (std::uint64_t step = 0; step < 500; ++step) {
    pace.add(0, step, at);
    pace.add(0, step, at + 1000);  // another span of the step
    at += (step < 300 ? 80 : 20) * 1'000'000;
  }
  EXPECT_NEAR(pace.step_ms(), 20, 1e-6);
  pace.add(1, 7, 0);
  EXPECT_EQ(pace.step_ms(), 0) << "another rank has other times";
}

TEST(Pace, StaysWhileRanksEnd) {
  Pace pace;
  const auto run = [&](int rank, std::uint64_t steps, std::int64_t ms) {
    for (std::uint64_t step = 0; step < steps; ++step)
      pace.add(rank, 50 + step, static_cast<std::int64_t>(step) * ms * 1'000'000);
  };
  run(0, 50, 20);
  pace.hold(pace.step_ms());
  pace.hold(pace.step_ms());
  run(1, 10, 90);
  EXPECT_TRUE(pace.is_held());
  EXPECT_NEAR(pace.step_ms(), 20, 1e-6) << "these are the last steps of some";
  run(1, 12, 30);
  EXPECT_FALSE(pace.is_held());
  EXPECT_NEAR(pace.step_ms(), 30, 1e-6) << "the others go on";
}

TEST(WithCommas, GroupsDigits) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(12'345'678), "12,345,678");
}

LineFacts running() {
  LineFacts facts{.state = LineState::running, .has_steps = true};
  facts.progress = {.step = 12'340, .total = 20'000, .samples_per_s = 31.2, .step_ms = 41, .wait_ms = 0.8};
  facts.culprit = {3, "data", "", 0.7};
  return facts;
}

TEST(Line, TellsProgressAndTheRankThatOthersWaitFor) {
  LineFacts facts = running();
  EXPECT_EQ(in_words(facts),
            "running, step 12,340 of 20,000, 31.2 samples/s; 0.7 ms a step waiting for rank 3 (data)")
      << "its own lateness";
  facts.culprit = {};
  EXPECT_EQ(in_words(facts),
            "running, step 12,340 of 20,000, 31.2 samples/s; 0.8 ms a step waiting for others");
  facts.progress.wait_ms = 0.1;
  EXPECT_EQ(in_words(facts), "running, step 12,340 of 20,000, 31.2 samples/s") << "that is little";
  facts.progress.samples_per_s = 0;
  EXPECT_EQ(in_words(facts), "running, step 12,340 of 20,000, 41.0 ms a step");
}

TEST(Line, TellsWhenItEnds) {
  LineFacts facts = running();
  facts.culprit = {};
  facts.progress.wait_ms = 0;
  std::tm noon{.tm_min = 40, .tm_hour = 16, .tm_mday = 3, .tm_mon = 11, .tm_year = 126, .tm_isdst = -1};
  facts.progress.ends_at = static_cast<double>(std::mktime(&noon));
  facts.now_at = facts.progress.ends_at - 3600;
  EXPECT_EQ(in_words(facts), "running, step 12,340 of 20,000, 31.2 samples/s, ends at 16:40");
  facts.now_at -= 7 * 86'400.0;
  EXPECT_EQ(in_words(facts), "running, step 12,340 of 20,000, 31.2 samples/s, ends on 03 Dec at 16:40");
}

TEST(Line, AnotherYearIsNamed) {
  LineFacts facts = running();
  facts.culprit = {};
  facts.progress.wait_ms = 0;
  std::tm january{.tm_min = 40, .tm_hour = 16, .tm_mday = 3, .tm_year = 127, .tm_isdst = -1};
  facts.progress.ends_at = static_cast<double>(std::mktime(&january));
  facts.now_at = facts.progress.ends_at - 14 * 86'400.0;
  EXPECT_EQ(in_words(facts), "running, step 12,340 of 20,000, 31.2 samples/s, ends on 03 Jan 2027 at 16:40");
  facts.progress.ends_at = 1e300;
  EXPECT_NE(in_words(facts).find("ends on "), std::string::npos) << "no number is too large";
}

TEST(Line, TellsOfStallsAndEnds) {
  LineFacts facts = running();
  facts.progress.samples_per_s = facts.progress.step_ms = 0;
  facts.state = LineState::waiting;
  facts.still_s = 1.24;
  EXPECT_EQ(in_words(facts),
            "waiting, step 12,340 of 20,000; no step for 1.2 s, the others wait for rank 3 (data)");
  facts.state = LineState::stalled;
  facts.still_s = 7.4;
  EXPECT_EQ(in_words(facts),
            "stalled, step 12,340 of 20,000; no step for 7 s, the others wait for rank 3 (data)");
  facts.culprit = {};
  EXPECT_EQ(in_words(facts), "stalled, step 12,340 of 20,000; no step for 7 s, all ranks wait for results");
  facts.stall = "'x' is not complete after 3.3 s.; not submitted by: rank 2";
  EXPECT_EQ(in_words(facts),
            "stalled, step 12,340 of 20,000; 'x' is not complete after 3.3 s.; not submitted by: rank 2");
  facts = {.state = LineState::lost, .words = "rank 1 was killed"};
  EXPECT_EQ(in_words(facts), "lost: rank 1 was killed");
}

}  // namespace
}  // namespace rueda
