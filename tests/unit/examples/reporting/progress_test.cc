// SPDX-License-Identifier: Apache-2.0
// The lines of a run's progress, by a clock that the test moves.
#include "examples/lib/reporting/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace rueda::examples {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

// Purpose: a run whose steps take as long as the test says, shown in a file. Owned by a test.
class ShownRun {
 public:
  explicit ShownRun(std::int64_t steps, std::int64_t done = 0)
      : progress_(steps, 4, done, file_, [this] { return now_; }) {}
  ~ShownRun() { std::fclose(file_); }
  ShownRun(const ShownRun&) = delete;
  ShownRun& operator=(const ShownRun&) = delete;

  void steps(int count, Progress::Clock::duration each, double loss = 2) {
    for (int i = 0; i < count; ++i) {
      now_ += each;
      progress_.step_done(loss);
    }
  }
  void something_else(Progress::Clock::duration time) {
    now_ += time;
    progress_.go_on();
  }
  std::string text() {
    progress_.finish();
    std::string text(1 << 16, '\0');
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }
  std::vector<std::string> lines() {
    std::istringstream all(text());
    std::vector<std::string> lines;
    for (std::string line; std::getline(all, line);) lines.push_back(line);
    return lines;
  }

 private:
  std::FILE* file_ = std::tmpfile();
  Progress::Clock::time_point now_{};
  Progress progress_;
};

TEST(Progress, ClockTime) {
  EXPECT_EQ(clock_time(0), "0:00");
  EXPECT_EQ(clock_time(74.6), "1:15");
  EXPECT_EQ(clock_time(3675), "1:01:15");
  EXPECT_EQ(clock_time(-1), "0:00");
}

TEST(Progress, BarFitsTheTerminal) {
  const ProgressState state{.step = 5,
                            .steps = 10,
                            .loss = 1.5,
                            .samples_per_second = 20,
                            .seconds = 65,
                            .seconds_left = 61,
                            .parts = {{"mlm", 0.5}, {"ce", 1}}};
  EXPECT_EQ(progress_line(state),
            "step 5/10  loss 1.5000 (mlm 0.5000, ce 1.0000)  20.0 samples/s  1:05 passed, 1:01 left");
  for (const int columns : {10, 88, 89, 95, 120, 200})
    EXPECT_LT(progress_bar(state, columns).size(), columns);
  EXPECT_THAT(progress_bar(state, 200),
              HasSubstr("[" + std::string(20, '#') + std::string(20, '.') + "] step"));
}

TEST(Progress, RateAndTimeLeftAreOfRecentSteps) {
  ShownRun run(100);
  run.steps(50, seconds(10));
  run.steps(25, seconds(1));
  run.steps(25, milliseconds(500));
  const auto lines = run.lines();
  EXPECT_THAT(lines.front(), EndsWith("0.4 samples/s  0:10 passed, 16:30 left"));
  EXPECT_THAT(lines, testing::Contains(EndsWith("4.0 samples/s  8:41 passed, 0:29 left")));
  EXPECT_THAT(lines.back(), EndsWith("8.0 samples/s  8:58 passed, 0:00 left"));
}

TEST(Progress, EvaluationsAreNoSteps) {
  ShownRun run(3);
  run.something_else(minutes(5));
  run.steps(2, seconds(2));
  run.something_else(minutes(10));
  run.steps(1, seconds(2));
  EXPECT_THAT(run.lines().front(), EndsWith("2.0 samples/s  5:02 passed, 0:04 left"));
  EXPECT_THAT(run.lines().back(), EndsWith("2.0 samples/s  15:06 passed, 0:00 left"));
}

TEST(Progress, AResumedRunCountsWhatWasDone) {
  ShownRun run(100, 90);
  run.steps(10, seconds(1));
  EXPECT_THAT(run.lines().front(), StartsWith("step 91/100  loss 2.0000  4.0 samples/s  0:01 passed, 0:09"));
}

TEST(Progress, QuickStepsGiveFirstAndLastLine) {
  ShownRun run(100);
  run.steps(100, milliseconds(10));
  EXPECT_THAT(run.lines(),
              ElementsAre(StartsWith("step 1/100  loss 2.0000"), StartsWith("step 100/100  loss 2.0000")));
  EXPECT_EQ(run.text().find('\r'), std::string::npos);
}

TEST(Progress, ALineForEachTwentiethOfTheRun) {
  ShownRun run(100);
  run.steps(100, seconds(1));
  const auto lines = run.lines();
  EXPECT_THAT(lines, SizeIs(21));  // steps 1, 6, 11, ..., 96, and the last
  EXPECT_THAT(lines[1], StartsWith("step 6/100"));
}

TEST(Progress, ALineAMinuteWhereSuchATwentiethTakesLonger) {
  ShownRun run(10000);
  run.steps(100, seconds(7));
  const auto lines = run.lines();
  EXPECT_THAT(lines, SizeIs(12));  // the first, and every ninth, which is 63 s later
  EXPECT_THAT(lines[1], StartsWith("step 10/10000"));
  EXPECT_THAT(lines[2], StartsWith("step 19/10000"));
}

}  // namespace
}  // namespace rueda::examples
