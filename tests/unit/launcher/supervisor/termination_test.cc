// SPDX-License-Identifier: Apache-2.0
// The times of a job's end, and what is known of its ranks.
#include "launcher/supervisor/termination.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include "launcher/supervisor/job_record.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Act = Ending::Act;

const Ending::Time kBegin{};

// What is done in the first ten seconds, in milliseconds from the begin.
std::vector<std::pair<Act, int>> acts_of(Ending ending) {
  std::vector<std::pair<Act, int>> acts;
  while (ending.next_time() && *ending.next_time() < kBegin + 10s) {
    const auto now = *ending.next_time();
    const Act act = ending.next_act(now);
    acts.emplace_back(act, static_cast<int>((now - kBegin) / 1ms));
    if (act == Act::force) break;
  }
  return acts;
}

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Ending, AfterAFailureAllIsOverWithinFiveSeconds) {
  Ending ending;
  EXPECT_FALSE(ending.has_begun());
  ending.on_failure(kBegin);
  ending.on_failure(kBegin + 1s);
  EXPECT_TRUE(ending.has_begun());
  EXPECT_THAT(acts_of(ending),
              ElementsAre(Pair(Act::terminate, 3000), Pair(Act::kill, 4000), Pair(Act::force, 4700)));
}

TEST(Ending, InterruptsAndHurry) {
  Ending ending;
  ending.on_interrupt(kBegin, 1s);
  EXPECT_THAT(acts_of(ending),
              ElementsAre(Pair(Act::terminate, 1000), Pair(Act::kill, 1700), Pair(Act::force, 2400)));
  ending.on_hurry(kBegin + 200ms);
  EXPECT_THAT(acts_of(ending),
              ElementsAre(Pair(Act::terminate, 200), Pair(Act::kill, 200), Pair(Act::force, 900)));
}

TEST(Ending, AGraceThatWasGivenCounts) {
  Ending ending;
  ending.on_terminate(kBegin, 5s);
  EXPECT_THAT(acts_of(ending),
              ElementsAre(Pair(Act::terminate, 0), Pair(Act::kill, 5000), Pair(Act::force, 5700)));
}

TEST(Ending, WhatHasBeenDoneIsNotDoneAgain) {
  Ending ending;
  ending.on_terminate(kBegin);
  EXPECT_EQ(ending.next_act(kBegin), Act::terminate);
  ending.on_failure(kBegin);
  ending.on_all_ended(kBegin);
  EXPECT_THAT(acts_of(ending), ElementsAre(Pair(Act::kill, 700), Pair(Act::force, 1400)));
}

TEST(Ending, AJobThatEndsByItselfIsGivenAllTime) {
  Ending ending;
  ending.on_all_ended(kBegin);
  EXPECT_FALSE(ending.next_time());
}

TEST(Ending, AgentsHaveTimeWhileOutputComes) {
  Ending ending;
  ending.on_output(kBegin);
  EXPECT_FALSE(ending.next_time());
  ending.on_terminate(kBegin);
  ending.on_output(kBegin);
  ending.on_all_ended(kBegin + 100ms);
  for (auto now = kBegin + 200ms; now <= kBegin + 5s; now += 100ms) ending.on_output(now);
  EXPECT_THAT(acts_of(ending),
              ElementsAre(Pair(Act::terminate, 0), Pair(Act::kill, 700), Pair(Act::force, 8000)));
  ending.on_hurry(kBegin + 5s);
  ending.on_output(kBegin + 5s);
  EXPECT_LE(ending.next_time(), kBegin + 5700ms) << "who asks twice does not wait for it";
}

// Ranks 0 and 1 on host 0, rank 2 on host 1.
JobRecord job_of_three() {
  JobRecord job(place_ranks(3, {{"a", 2}, {"b", 1}}, ""));
  job.note_ready(0, {"node", 20});
  job.note_ready(1, {"other", 21});
  return job;
}

TEST(JobRecord, FirstFailureAndItsWords) {
  JobRecord job = job_of_three();
  EXPECT_EQ(job.missing(), "ranks 0, 1, 2");
  EXPECT_EQ(job.ranks_on(0), "ranks 0, 1");
  for (int rank = 0; rank < 3; ++rank) job.note_start({rank, 10 + rank, ""});
  EXPECT_TRUE(job.all_started());
  EXPECT_TRUE(job.note_end({1, SIGKILL, false}));
  EXPECT_EQ(job.words_for(1), "rank 1 (process 11 on node) was killed by signal 9 (Killed)");
  EXPECT_EQ(job.exit_code_of(1), 137);
  EXPECT_FALSE(job.note_end({1, 0, false})) << "a rank ends once";
  EXPECT_FALSE(job.note_end({0, SIGTERM, true}));
  EXPECT_THAT(job.note_gone(1), ElementsAre(2));
  EXPECT_THAT(job.note_gone(1), ElementsAre());
  EXPECT_EQ(job.words_for(2),
            "rank 2 (process 12 on other) was killed by signal 9 (Killed): its agent (process 21) has gone, "
            "and with it the rank");
  EXPECT_TRUE(job.all_ended());
}

TEST(JobRecord, WhatHadFailedInARankBeforeItsEnd) {
  JobRecord job = job_of_three();
  job.note_start({0, 10, ""});
  job.note_start({1, 11, ""});
  job.note_start({2, 12, ""});
  EXPECT_EQ(job.failure_of(0), "") << "it runs";
  EXPECT_FALSE(job.failed_by_itself(0));
  job.note_end({.rank = 0, .status = W_EXITCODE(1, 0), .failure = "rank 1 shut\x1b[2J down"});
  job.note_end({.rank = 1, .status = W_EXITCODE(1, 0)});
  EXPECT_EQ(job.failure_of(0), "rank 1 shut?[2J down") << "it comes from another process";
  EXPECT_EQ(job.failure_of(1), "");
  EXPECT_FALSE(job.failed_by_itself(0));
  EXPECT_TRUE(job.failed_by_itself(1));
  job.note_end({.rank = 2, .status = W_EXITCODE(1, 0), .saw_loss = true});
  EXPECT_FALSE(job.failed_by_itself(2));
  EXPECT_EQ(job.words_for(0), "rank 0 (process 10 on node) ended with status 1");
}

TEST(JobRecord, EndsThatAreNoFailures) {
  JobRecord job = job_of_three();
  job.note_launch(0);
  job.note_start({0, 10, ""});
  EXPECT_EQ(job.missing(), "ranks 1, 2");
  EXPECT_FALSE(job.note_end({0, 0, false}));
  EXPECT_FALSE(job.none_runs()) << "rank 1 is about to start";
  EXPECT_FALSE(job.all_started_on(0));
  job.note_no_start(0);
  EXPECT_TRUE(job.none_runs());
  EXPECT_FALSE(job.all_ended());
  EXPECT_EQ(job.exit_code_of(0), 1) << "asked only of failures";
}

TEST(JobRecord, ARankThatEndsWellInsideOfMpiIsAFailure) {
  JobRecord job = job_of_three();
  job.note_start({0, 10, ""});
  EXPECT_TRUE(job.note_end({0, 0, false, true}));
  EXPECT_EQ(job.words_for(0), "rank 0 (process 10 on node) ended with status 0 without MPI_Finalize");
  EXPECT_EQ(job.exit_code_of(0), 1);
  job.note_start({1, 11, ""});
  EXPECT_FALSE(job.note_end({1, 0, true, true})) << "ruedarun had asked for it";
}

TEST(JobRecord, AnAgentSpeaksOfItsOwnRanks) {
  const JobRecord job = job_of_three();
  EXPECT_TRUE(job.is_rank(2));
  EXPECT_FALSE(job.is_rank(3));
  EXPECT_FALSE(job.is_rank(-1));
  EXPECT_TRUE(job.is_on(2, 1));
  EXPECT_FALSE(job.is_on(2, 0));
}

}  // namespace
}  // namespace rueda
