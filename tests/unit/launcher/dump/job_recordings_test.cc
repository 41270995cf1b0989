// SPDX-License-Identifier: Apache-2.0
// Operations of several ranks that belong together.
#include "launcher/dump/job_recordings.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "core/control/messages/message_pair.h"
#include "tests/unit/launcher/dump/recorded_ranks.h"

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const JobGroup& group_of(const std::vector<JobGroup>& groups, const std::string& name) {
  const auto found = std::ranges::find(groups, name, &JobGroup::name);
  EXPECT_NE(found, groups.end()) << name;
  return found == groups.end() ? groups.front() : *found;
}

std::vector<std::string> names_in(const JobGroup& group) {
  std::vector<std::string> names;
  for (const JobOperation& operation : group.operations) names.push_back(operation.name);
  return names;
}

TEST(JobGroups, PutsOperationsOfOnePlanAndNameTogether) {
  RecordedRanks ranks(3);
  ranks.complete(RecordedRanks::request("b"), 1);
  ranks.complete(RecordedRanks::request("a"), 1);
  ranks.complete(RecordedRanks::request("b"), 2);
  const std::vector<JobGroup> groups = job_groups(ranks.recordings());
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].name, "all ranks");
  EXPECT_THAT(groups[0].ranks, ElementsAre(0, 1, 2));
  EXPECT_THAT(names_in(groups[0]), ElementsAre("a", "b", "b"));
  for (const JobOperation& operation : groups[0].operations) {
    EXPECT_THAT(operation.on, SizeIs(3));
    EXPECT_TRUE(operation.missing.empty());
  }
}

TEST(JobGroups, NamesTheRanksThatHaveNotSubmitted) {
  RecordedRanks ranks(4);
  ranks.complete(RecordedRanks::request("early"), 1);
  for (const Rank rank : {3, 1}) ranks.submit(rank, RecordedRanks::request("x"));
  ranks.submit(0, RecordedRanks::request("y"));
  const JobGroup group = job_groups(ranks.recordings()).at(0);
  ASSERT_THAT(names_in(group), UnorderedElementsAre("early", "x", "y"));  // they may be of one moment
  EXPECT_EQ(to_string(std::ranges::find(group.operations, "x", &JobOperation::name)->missing), "ranks 0, 2");
  EXPECT_EQ(to_string(std::ranges::find(group.operations, "y", &JobOperation::name)->missing), "ranks 1-3");
}

TEST(JobGroups, ARankThatHasNotHeardOfThePlanHasTheOperation) {
  RecordedRanks ranks(2);
  ranks.complete(RecordedRanks::request("x"), 3);
  ranks.complete(0, RecordedRanks::request("x"), 5);
  ranks.submit(1, RecordedRanks::request("x"));
  const JobGroup group = job_groups(ranks.recordings()).at(0);
  ASSERT_THAT(group.operations, SizeIs(2));
  EXPECT_EQ(group.operations[1].plan, 5u);
  EXPECT_THAT(group.operations[1].on, SizeIs(2));
}

TEST(JobGroups, AnOperationThatARankHasForgottenIsNotMissing) {
  RecordedRanks ranks(2);
  ranks.complete(0, RecordedRanks::request("old"), 1);
  for (std::uint64_t plan = 1; plan <= RecorderPage::kSlots + 1; ++plan)
    ranks.complete(1, RecordedRanks::request("x"), plan + 1);
  const JobGroup group = job_groups(ranks.recordings()).at(0);
  const auto old = std::ranges::find(group.operations, "old", &JobOperation::name);
  EXPECT_EQ(to_string(old->forgotten), "rank 1");
  EXPECT_TRUE(old->missing.empty());
}

TEST(JobGroups, ARankWithMoreInFlightThanItsRecordingHoldsMayHaveTheOperation) {
  RecordedRanks ranks(3);
  for (std::size_t i = 0; i <= RecorderPage::kSlots; ++i)
    ranks.submit(0, RecordedRanks::request("x" + std::to_string(i)));
  ranks.submit(1, RecordedRanks::request("late"));
  const JobGroup group = job_groups(ranks.recordings()).at(0);
  const auto late = std::ranges::find(group.operations, "late", &JobOperation::name);
  ASSERT_NE(late, group.operations.end());
  EXPECT_EQ(to_string(late->forgotten), "rank 0");
  EXPECT_EQ(to_string(late->missing), "rank 2");
}

TEST(JobGroups, NumbersThatMeanNothingAreCut) {
  RecordedRanks ranks(2);
  ranks.of(1).identify(std::numeric_limits<Rank>::max(), std::numeric_limits<Rank>::max(), 0);
  ranks.complete(RecordedRanks::request("x"), 1);
  std::map<Rank, RankRecording> recordings = ranks.recordings();
  recordings[0].unix_ns = std::numeric_limits<std::int64_t>::max();
  recordings[0].monotonic_ns = -1;
  const JobGroup group = job_groups(recordings, 2).at(0);
  EXPECT_THAT(group.ranks, ElementsAre(0, 1));
  EXPECT_THAT(group.operations, SizeIs(1));
}

TEST(JobGroups, ARankThatHasJoinedMissesNothing) {
  RecordedRanks ranks(2);
  ranks.submit(1, RecordedRanks::request("join", Operation::join));
  ranks.complete(0, RecordedRanks::request("x"), 1);
  ranks.submit(0, RecordedRanks::request("y"));
  const JobGroup group = job_groups(ranks.recordings()).at(0);
  for (const char* name : {"x", "y"}) {
    const auto found = std::ranges::find(group.operations, name, &JobOperation::name);
    EXPECT_EQ(to_string(found->joined), "rank 1");
    EXPECT_TRUE(found->missing.empty());
  }
}

TEST(JobGroups, ProcessSetsAndMessagesAreGroupsOfTheirOwn) {
  RecordedRanks ranks(4);
  for (Rank rank = 0; rank < 4; ++rank) ranks.of(rank).note_set(2, RankSet(1, 4));
  ranks.submit(1, RecordedRanks::request("x", Operation::allreduce, {4}, 2));
  const ProcessSetId message = MessagePair{3, 0}.id();
  ranks.submit(3, RecordedRanks::request("m", Operation::message, {4}, message));
  const std::vector<JobGroup> groups = job_groups(ranks.recordings());
  const JobGroup& set = group_of(groups, "process set 2");
  EXPECT_THAT(set.ranks, ElementsAre(1, 2, 3));
  EXPECT_EQ(to_string(set.operations.at(0).missing), "ranks 2-3");
  const JobGroup& pair = group_of(groups, "messages of ranks 0 and 3");
  EXPECT_THAT(pair.ranks, ElementsAre(0, 3));
  EXPECT_EQ(to_string(pair.operations.at(0).missing), "rank 0");
}

TEST(JobGroups, RanksOfAGroupHaveTheirNumbersInTheJob) {
  RecordedRanks ranks(2, "group 7", {5, 9});
  ranks.submit(1, RecordedRanks::request("x"));
  std::map<Rank, RankRecording> recordings = ranks.recordings();
  const JobGroup group = job_groups(recordings).at(0);
  EXPECT_EQ(group.name, "group 7");
  EXPECT_THAT(group.ranks, ElementsAre(5, 9));
  EXPECT_EQ(to_string(group.operations.at(0).missing), "rank 5");
  recordings.erase(5);
  const JobGroup alone = job_groups(recordings).at(0);
  EXPECT_THAT(alone.ranks, ElementsAre(5, 9));
  EXPECT_EQ(to_string(alone.operations.at(0).absent), "rank 5");
}

TEST(JobGroups, AJobThatHasEndedForSomeIsLeftOut) {
  RecordedRanks ranks(2);
  ranks.complete(RecordedRanks::request("x"), 1);
  for (Rank rank = 0; rank < 2; ++rank) ranks.of(rank).end_in_order();
  std::map<Rank, RankRecording> recordings = ranks.recordings();
  EXPECT_THAT(job_groups(recordings), SizeIs(1));
  recordings.erase(0);
  EXPECT_THAT(job_groups(recordings), IsEmpty());
}

TEST(JobGroups, TheLastJobOfANameCounts) {
  RecordedRanks before(2, "", {}, 1), now(2, "", {}, 2);
  before.submit(1, RecordedRanks::request("old"));
  now.submit(0, RecordedRanks::request("new"));
  std::map<Rank, RankRecording> recordings = before.recordings();
  recordings[0] = now.recordings().at(0);
  const std::vector<JobGroup> groups = job_groups(recordings);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_THAT(names_in(groups[0]), ElementsAre("new"));
}

TEST(JobGroups, TimesAreThoseOfTheWallClock) {
  RecordedRanks ranks(1);
  ranks.complete(RecordedRanks::request("x"), 1);
  const std::map<Rank, RankRecording> recordings = ranks.recordings();
  const JobGroup group = job_groups(recordings).at(0);
  const RecordedOperation& operation = group.operations.at(0).on.at(0);
  EXPECT_LE(operation.submitted_ns, operation.ended_ns);
  EXPECT_LE(operation.ended_ns, recordings.at(0).unix_ns);
  EXPECT_GT(operation.submitted_ns, recordings.at(0).unix_ns - 60'000'000'000);
}

}  // namespace
}  // namespace rueda
