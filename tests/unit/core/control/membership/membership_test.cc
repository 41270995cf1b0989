// SPDX-License-Identifier: Apache-2.0
#include "core/control/membership/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{};

// A job of four that goes on with two.
struct Job {
  Membership membership{{.least = 2, .most = 4, .timeout = 600s, .resets = {}}, 4};
  Time now = kStart;

  std::vector<Worker> workers() { return membership.generation().by_rank(); }
  bool decide() { return membership.decide(now).has_value(); }
  // All members say that they are ready and meet.
  void form() {
    const Generation generation = membership.generation();
    for (const Worker worker : generation.by_rank()) membership.formed(worker, generation.number);
  }
  void all_leave() {
    const Generation generation = membership.generation();
    for (const Worker worker : generation.by_rank()) membership.ready(worker, generation.number, now);
  }
};

TEST(Membership, ALossMakesAGenerationWithoutAnyAnswer) {
  Job job;
  job.form();
  EXPECT_FALSE(job.decide());
  job.membership.lost(1);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{0, 2, 3}));
  EXPECT_EQ(job.membership.generation().number, 1U);
  EXPECT_FALSE(job.decide());
}

TEST(Membership, LossesAtTheSameTimeMakeOneGeneration) {
  Job job;
  job.form();
  job.membership.lost(0);
  job.membership.lost(3);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{1, 2}));
  EXPECT_EQ(job.membership.generation().number, 1U);
}

TEST(Membership, ALossWhileAGenerationFormsMakesTheNext) {
  Job job;
  job.membership.lost(0);
  ASSERT_TRUE(job.decide());
  job.membership.formed(1, 1);
  job.membership.lost(2);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{1, 3}));
  EXPECT_FALSE(job.membership.has_formed());
  job.membership.formed(1, 1);  // of the one before: does not count
  job.membership.formed(3, 2);
  EXPECT_FALSE(job.membership.has_formed());
  job.membership.formed(1, 2);
  EXPECT_TRUE(job.membership.has_formed());
}

TEST(Membership, AJoinerWaitsUntilTheMembersLeave) {
  Job job;
  job.form();
  job.membership.lost(1);
  job.decide();
  job.membership.ready(4, {}, job.now);
  EXPECT_FALSE(job.membership.change_due().joiners);  // while it forms
  job.form();
  EXPECT_TRUE(job.membership.change_due().joiners);
  EXPECT_FALSE(job.decide());
  job.membership.ready(0, 1, job.now);
  EXPECT_FALSE(job.decide());  // the others are on their way
  job.membership.ready(2, 1, job.now);
  job.membership.ready(3, 1, job.now);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{0, 2, 3, 4}));
}

TEST(Membership, AMemberThatLeavesIsNotKeptWaitingForLong) {
  Job job;
  job.form();
  job.membership.ready(2, 0, job.now);
  EXPECT_FALSE(job.decide());
  job.now += Membership::kLeaving;
  EXPECT_EQ(job.membership.due(), job.now);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{0, 1, 2, 3}));
  EXPECT_EQ(job.membership.generation().number, 1U);
}

TEST(Membership, WhoComesFromAnOlderGenerationBreaksNoNewOne) {
  Job job;
  job.form();
  job.membership.lost(3);
  ASSERT_TRUE(job.decide());
  job.membership.ready(0, 0, job.now);
  job.now += Membership::kLeaving;
  EXPECT_FALSE(job.decide());
}

TEST(Membership, ASpareTakesTheLostOnesPlaceAtOnce) {
  Job job;
  job.form();
  job.membership.ready(4, {}, job.now);
  EXPECT_FALSE(job.membership.change_due().joiners);  // there is no room
  job.membership.lost(2);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{0, 1, 3, 4}));
}

TEST(Membership, TooFewWaitForOthersAndNotForEver) {
  Job job;
  job.form();
  for (const Worker worker : {0, 1, 2}) job.membership.lost(worker);
  EXPECT_FALSE(job.decide());
  EXPECT_TRUE(job.membership.is_short());
  job.now += 599s;
  job.membership.ready(4, {}, job.now);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{3, 4}));
  job.membership.lost(4);
  EXPECT_FALSE(job.decide());
  job.now += 600s;
  EXPECT_EQ(job.membership.due(), job.now);
  EXPECT_FALSE(job.decide());
  EXPECT_EQ(job.membership.failure(),
            "1 of at least 2 workers are there, and no more have come within 600 s");
}

TEST(Membership, WhoWaitsForOthersHasTimeUntilThen) {
  Job job;
  job.form();
  for (const Worker worker : {0, 1, 2}) job.membership.lost(worker);
  job.membership.ready(3, 0, job.now);
  EXPECT_FALSE(job.decide());
  job.now += 2 * Membership::kLeaving;
  EXPECT_FALSE(job.decide());
  EXPECT_GT(job.membership.due(), job.now);  // or the supervisor would not rest
}

TEST(Membership, TheResetLimitEndsTheJob) {
  Membership membership({.least = 1, .most = 3, .timeout = 1s, .resets = 1}, 3);
  membership.lost(2);
  EXPECT_TRUE(membership.decide(kStart));
  for (const Worker worker : {0, 1}) membership.formed(worker, 1);
  membership.ready(3, {}, kStart);
  EXPECT_FALSE(membership.change_due().joiners);  // that would be the second
  EXPECT_FALSE(membership.takes_more());
  membership.lost(1);
  EXPECT_FALSE(membership.decide(kStart));
  EXPECT_EQ(membership.failure(), "reset limit 1 exceeded");
}

TEST(Membership, WhoHasFinishedIsInNoLaterGeneration) {
  Job job;
  job.form();
  job.membership.finished(3);
  EXPECT_FALSE(job.decide());
  job.membership.lost(0);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{1, 2}));
  job.membership.ready(2, 0, job.now);
  job.membership.finished(1);  // before the generation has formed: the other must not wait for it
  EXPECT_FALSE(job.decide());
  EXPECT_EQ(job.membership.failure(), "others have finished, and 1 of at least 2 workers are left");
}

TEST(Membership, ProcessesThatNeverTakePartMakeNoGeneration) {
  Job job;
  for (const Worker worker : {0, 1, 2, 3}) {
    job.membership.finished(worker);
    EXPECT_FALSE(job.decide());
  }
  EXPECT_TRUE(job.membership.is_over());
  EXPECT_EQ(job.membership.failure(), "");
}

TEST(Membership, WhoComesAfterAnEarlyEndDoesNotWaitForIt) {
  Job job;
  job.membership.finished(0);
  EXPECT_FALSE(job.decide());
  job.membership.ready(1, {}, job.now);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{1, 2, 3}));
}

TEST(Membership, ALossAfterTheOthersHaveFinishedIsAFailure) {
  Job job;
  job.form();
  job.membership.ready(4, {}, job.now);  // a spare does not help
  for (const Worker worker : {0, 1, 2}) job.membership.finished(worker);
  job.membership.lost(3);
  EXPECT_FALSE(job.membership.is_over());
  EXPECT_FALSE(job.decide());
  EXPECT_EQ(job.membership.failure(), "the others have finished");
}

TEST(Membership, MembersThatComeAndDoNotMeetGetAnotherGeneration) {
  Job job;
  job.form();
  job.membership.lost(3);
  job.decide();
  for (const Worker worker : {0, 1, 2}) job.membership.ready(worker, 0, job.now);
  job.now += Membership::kMeeting + 3 * Membership::kMeetingOfWorker;
  EXPECT_EQ(job.membership.due(), job.now);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.membership.generation().number, 2U);
  for (const Worker worker : {0, 1}) job.membership.ready(worker, 1, job.now);  // 2 is stuck
  job.now += 600s;
  EXPECT_EQ(job.membership.take_silent(job.now), RankSet::of(2));
}

TEST(Membership, AfterTheFirstHasFinishedNobodyJoins) {
  Job job;
  job.form();
  job.membership.lost(3);
  job.decide();
  job.form();
  job.membership.finished(0);
  job.membership.ready(4, {}, job.now);
  EXPECT_FALSE(job.membership.change_due().joiners);
  EXPECT_FALSE(job.membership.takes_more());
  job.membership.finished(1);
  job.membership.finished(2);
  EXPECT_TRUE(job.membership.is_over());
}

TEST(Membership, WithoutAWorkerThatHasTheStateTheJobEnds) {
  Job job;
  job.form();
  for (const Worker worker : {0, 1, 2, 3}) job.membership.has_state(worker);
  job.membership.lost(1);
  job.membership.ready(4, {}, job.now);
  ASSERT_TRUE(job.decide());
  for (const Worker worker : {0, 2, 3}) job.membership.lost(worker);
  job.membership.ready(5, {}, job.now);
  EXPECT_FALSE(job.decide());
  EXPECT_EQ(job.membership.failure(), "no worker with the state of training is left");
}

TEST(Membership, ASilentMemberIsNamed) {
  Job job;
  job.form();
  job.membership.lost(3);
  ASSERT_TRUE(job.decide());
  job.membership.ready(0, 0, job.now);
  job.membership.ready(1, 0, job.now);
  EXPECT_TRUE(job.membership.take_silent(job.now + 599s).empty());
  EXPECT_EQ(job.membership.take_silent(job.now + 600s), RankSet::of(2));
}

TEST(Membership, AWorkerThatWasLostDoesNotComeBack) {
  Job job;
  job.form();
  job.membership.lost(1);
  job.decide();
  job.membership.ready(1, 0, job.now);
  job.form();
  EXPECT_FALSE(job.membership.change_due().joiners);
  job.all_leave();
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{0, 2, 3}));
}

TEST(Membership, AMemberThatIsToGoIsNotInTheNextGeneration) {
  Job job;
  job.form();
  job.membership.retire(1);
  EXPECT_EQ(job.membership.change_due(), (Membership::Due{.leavers = true}));
  EXPECT_FALSE(job.decide());  // the others have not left
  job.all_leave();
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{0, 2, 3}));
  job.form();
  EXPECT_EQ(job.membership.change_due(), Membership::Due{});
  job.membership.finished(1);  // it has ended, as it was asked to: that is no end of the job's work
  EXPECT_TRUE(job.membership.takes_more());
  job.membership.ready(1, {}, job.now);  // and it does not come back
  EXPECT_EQ(job.membership.change_due(), Membership::Due{});
}

TEST(Membership, ALossTakesThoseWithItThatAreToGo) {
  Job job;
  job.form();
  job.membership.retire(1);
  job.membership.lost(3);
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{0, 2}));
}

TEST(Membership, WhoIsToGoStaysWhileTheJobNeedsIt) {
  Job job;
  job.form();
  for (const Worker worker : {0, 1, 2}) job.membership.retire(worker);
  EXPECT_EQ(job.membership.change_due(), Membership::Due{});  // one would be left, of at least two
  job.all_leave();
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{0, 1, 2, 3}));
  job.form();
  job.membership.ready(4, {}, job.now);
  EXPECT_EQ(job.membership.change_due(), (Membership::Due{.joiners = true, .leavers = true}));
  job.all_leave();
  ASSERT_TRUE(job.decide());
  EXPECT_EQ(job.workers(), (std::vector<Worker>{3, 4}));
}

TEST(Membership, WhoIsToGoGivesTheStateToOthersFirst) {
  Membership membership({.least = 1, .most = 2, .timeout = 600s, .resets = {}}, 2);
  const auto form = [&] {
    for (const Worker worker : membership.generation().by_rank())
      membership.formed(worker, membership.generation().number);
  };
  const auto leave = [&] {
    for (const Worker worker : membership.generation().by_rank())
      membership.ready(worker, membership.generation().number, kStart);
  };
  form();
  membership.has_state(0);
  membership.retire(0);
  EXPECT_FALSE(membership.change_due().leavers);  // worker 1 has nothing yet
  membership.has_state(1);
  EXPECT_TRUE(membership.change_due().leavers);
  leave();
  ASSERT_TRUE(membership.decide(kStart));
  EXPECT_EQ(membership.generation().by_rank(), (std::vector<Worker>{1}));
}

TEST(Membership, WhoWaitsAndIsToGoDoesNotComeIn) {
  Job job;
  job.form();
  job.membership.lost(1);
  job.decide();
  job.form();
  job.membership.ready(4, {}, job.now);
  job.membership.retire(4);
  EXPECT_EQ(job.membership.change_due(), Membership::Due{});
}

TEST(Membership, AtTheLimitOfResetsNobodyIsWaitedFor) {
  Membership membership({.least = 2, .most = 2, .timeout = 600s, .resets = 0}, 2);
  membership.lost(0);
  EXPECT_FALSE(membership.decide(kStart));
  EXPECT_EQ(membership.failure(), "reset limit 0 exceeded");
}

TEST(Membership, AllMayRetireWhenOthersHaveTheState) {
  Membership membership({.least = 1, .most = 2, .timeout = 600s, .resets = {}}, 2);
  const auto form = [&] {
    for (const Worker worker : membership.generation().by_rank()) {
      membership.formed(worker, membership.generation().number);
      membership.has_state(worker);
    }
  };
  const auto leave = [&] {
    for (const Worker worker : membership.generation().by_rank())
      membership.ready(worker, membership.generation().number, kStart);
  };
  form();
  for (const Worker worker : {0, 1}) membership.retire(worker);
  EXPECT_EQ(membership.change_due(), Membership::Due{});
  for (const Worker worker : {2, 3}) membership.ready(worker, {}, kStart);
  EXPECT_EQ(membership.change_due(), (Membership::Due{.joiners = true}));  // they take no place of theirs
  leave();
  ASSERT_TRUE(membership.decide(kStart));
  EXPECT_EQ(membership.generation().workers.count(), 4);
  form();
  EXPECT_EQ(membership.change_due(), (Membership::Due{.leavers = true}));
  leave();
  ASSERT_TRUE(membership.decide(kStart));
  EXPECT_EQ(membership.generation().by_rank(), (std::vector<Worker>{2, 3}));
}

}  // namespace
}  // namespace rueda
