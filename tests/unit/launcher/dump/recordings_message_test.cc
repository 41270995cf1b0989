// SPDX-License-Identifier: Apache-2.0
// An agent's answer, whole and damaged.
#include "launcher/dump/recordings_message.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/unit/launcher/dump/recorded_ranks.h"

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::SizeIs;

TEST(RecordingsMessage, ComeAsTheyWere) {
  RecordedRanks ranks(1, "group \x01name", {3});
  ranks.complete(RecordedRanks::request("x"), 1);
  const std::optional<RankRecording> read = read_rank_recordings(ranks.answer(0));
  ASSERT_TRUE(read);
  ASSERT_THAT(read->runtimes, SizeIs(1));
  EXPECT_EQ(read->runtimes[0].name, "group ?name");
  EXPECT_THAT(read->runtimes[0].ranks, ElementsAre(3));
  EXPECT_THAT(read->runtimes[0].recording.ended, SizeIs(1));
  EXPECT_EQ(read->left_out, 0);
}

TEST(RecordingsMessage, AnAnswerHasABoundedLength) {
  Recorder recorder;
  recorder.identify(0, 1, 0);
  for (ProcessSetId id = 1; id <= RecorderPage::kSets; ++id) recorder.note_set(id, RankSet(0, 1));
  RankRecordingsWriter writer(0);
  for (int i = 0; i < 70; ++i) writer.add("-", "x", recorder.page());
  const std::string answer = writer.take();
  EXPECT_LT(answer.size(), std::size_t{4} << 20);
  const std::optional<RankRecording> read = read_rank_recordings(answer);
  ASSERT_TRUE(read);
  EXPECT_GT(read->left_out, 0);
  EXPECT_EQ(read->runtimes.size() + static_cast<std::size_t>(read->left_out), 70u);
}

TEST(RecordingsMessage, OfManyRuntimesTheFirstCount) {
  Recorder recorder;
  recorder.identify(0, 1, 0);
  RankRecordingsWriter writer(0);
  for (int i = 0; i < 1000; ++i) writer.add("0-4095", "x", recorder.page());
  const std::optional<RankRecording> read = read_rank_recordings(writer.take());
  ASSERT_TRUE(read);
  EXPECT_THAT(read->runtimes, SizeIs(64));
  EXPECT_EQ(read->left_out, 1000 - 64);
}

TEST(RecordingsMessage, NoDamageLeadsOutOfBounds) {
  RecordedRanks ranks(1);
  ranks.complete(RecordedRanks::request("x"), 1);
  const std::string whole = ranks.answer(0);
  EXPECT_FALSE(read_rank_recordings(""));
  for (std::size_t length = 0; length < whole.size(); length += 97)
    EXPECT_FALSE(read_rank_recordings(whole.substr(0, length)));
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 4; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    const std::optional<RankRecording> read = read_rank_recordings(damaged);
    EXPECT_LE(read ? read->runtimes.size() : 0, 1u);
  }
}

TEST(RanksOfRuns, TakesRunsOnly) {
  EXPECT_THAT(ranks_of_runs("-", 10), Optional(IsEmpty()));
  EXPECT_THAT(ranks_of_runs("0-2,9,4", 10), Optional(ElementsAre(0, 1, 2, 9, 4)));
  for (const char* text : {"", ",", "1,", "2-1", "-3", "a", "1--2", "0-10", "0-5,6-99999999", "1 "})
    EXPECT_FALSE(ranks_of_runs(text, 10)) << text;
}

}  // namespace
}  // namespace rueda
