// SPDX-License-Identifier: Apache-2.0
// The occasions of dumps.
#include "launcher/dump/job_dumps.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/launcher/dump/recorded_ranks.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class JobDumpsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "rueda-job-dumps-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<JobDumps> dumps_into(const std::string& folder) {
    auto dumps = std::make_unique<JobDumps>(
        folder,
        JobDumps::Surroundings{.tell = [this](const agents::Message& message) { told_.push_back(message); },
                               .facts =
                                   [] {
                                     return DumpFacts{.command = "train.py",
                                                      .process = 17,
                                                      .reason = "",
                                                      .unix_seconds = 1e9,
                                                      .ranks = {{0, "rank 0"}, {1, "rank 1"}}};
                                   },
                               .say = [this](const std::string& line) { said_.push_back(line); }});
    for (const int rank : {0, 1}) dumps->note_started(rank, rank);
    return dumps;
  }
  // From the agents of hosts 0 and 1.
  void answer(JobDumps& dumps, std::initializer_list<int> ranks) {
    const std::uint32_t number = std::get<agents::Request>(told_.back()).number;
    for (const int rank : ranks) dumps.hear(rank, {number, rank, true, ranks_.answer(rank)});
  }
  void turn_until_said(JobDumps& dumps, std::size_t lines) {
    for (int i = 0; i < 5000 && said_.size() < lines; ++i, std::this_thread::sleep_for(1ms)) dumps.act(now_);
  }

  std::string folder_;
  RecordedRanks ranks_{2};
  std::vector<agents::Message> told_;
  std::vector<std::string> said_;
  JobDumps::Time now_{1h};
};

TEST_F(JobDumpsTest, AnOccasionLeavesADumpAndASecondOneSoonAfterDoesNot) {
  const auto dumps = dumps_into(folder_);
  EXPECT_FALSE(dumps->next_time());
  dumps->on_occasion("rank 1 is lost", now_);
  dumps->on_occasion("rank 0 is lost", now_);
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_TRUE(dumps->next_time());
  answer(*dumps, {0, 1});
  turn_until_said(*dumps, 1);
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0],
              HasSubstr("rank 1 is lost; what each rank was doing is in " + folder_ + "/rueda-dump-"));
  dumps->on_occasion("rank 0 is lost", now_ + 9s);
  EXPECT_THAT(told_, SizeIs(1));
  dumps->on_occasion("rank 0 is lost", now_ + 10s);
  EXPECT_THAT(told_, SizeIs(2));
}

TEST_F(JobDumpsTest, WithoutAFolderThereAreNoOccasions) {
  const auto dumps = dumps_into("");
  dumps->on_occasion("rank 1 is lost", now_);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(JobDumpsTest, WhoAsksMeanwhileGetsTheNextOne) {
  const auto dumps = dumps_into(folder_);
  std::vector<std::string> folders;
  const auto done = [&](const WrittenDump& dump) { folders.push_back(dump.folder); };
  for (int i = 0; i < 3; ++i) dumps->ask(done, now_);
  ASSERT_THAT(told_, SizeIs(1));
  answer(*dumps, {0, 1});
  turn_until_said(*dumps, 1);
  EXPECT_THAT(folders, SizeIs(1));
  ASSERT_THAT(told_, SizeIs(2));
  answer(*dumps, {0, 1});
  turn_until_said(*dumps, 2);
  ASSERT_THAT(folders, SizeIs(3));
  EXPECT_EQ(folders[1], folders[0] + "-2");
  EXPECT_EQ(folders[2], folders[1]);
}

TEST_F(JobDumpsTest, TheEndOfTheJobWaitsForNoAnswer) {
  const auto dumps = dumps_into(folder_);
  dumps->finish();
  dumps->on_occasion("rank 1 is lost", now_);
  answer(*dumps, {1});
  dumps->finish();
  ASSERT_THAT(said_, SizeIs(1));
  std::vector<std::string> files;
  for (const auto& dump : std::filesystem::directory_iterator(folder_))
    for (const auto& file : std::filesystem::directory_iterator(dump))
      files.push_back(file.path().filename());
  EXPECT_THAT(files, testing::UnorderedElementsAre("job.txt", "rank_1"));
}

TEST_F(JobDumpsTest, AnOccasionInADumpOfSomebodyGetsTheNextOne) {
  const auto dumps = dumps_into(folder_);
  dumps->ask([](const WrittenDump&) {}, now_);
  dumps->on_occasion("rank 1 is lost", now_);
  ASSERT_THAT(told_, SizeIs(1));
  answer(*dumps, {0, 1});
  turn_until_said(*dumps, 1);
  ASSERT_THAT(told_, SizeIs(2));
  answer(*dumps, {0});
  dumps->finish();
  ASSERT_THAT(said_, SizeIs(2));
  EXPECT_THAT(said_[1], testing::StartsWith("rank 1 is lost; what each rank was doing is in "));
}

TEST_F(JobDumpsTest, AtTheEndOfTheJobOneDumpIsForAllWhoWait) {
  const auto dumps = dumps_into(folder_);
  std::vector<WrittenDump> written;
  const auto done = [&](const WrittenDump& dump) { written.push_back(dump); };
  for (int i = 0; i < 2; ++i) dumps->ask(done, now_);
  dumps->on_occasion("rank 1 is lost", now_);
  answer(*dumps, {0});
  dumps->finish();
  EXPECT_THAT(told_, SizeIs(1));
  ASSERT_THAT(written, SizeIs(2));
  EXPECT_EQ(written[0].error, "");
  EXPECT_EQ(written[1].folder, written[0].folder);
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], testing::StartsWith("rank 1 is lost; what"));
}

TEST_F(JobDumpsTest, WhoAsksWhileTheLastDumpIsWrittenGetsTheReason) {
  const auto dumps = dumps_into(folder_);
  std::vector<std::string> errors;
  const auto done = [&](const WrittenDump& dump) { errors.push_back(dump.error); };
  for (int i = 0; i < 2; ++i) dumps->ask(done, now_);
  answer(*dumps, {0, 1});
  // The first turn begins to write. The disk may be faster than the end: then there are answers for the next.
  dumps->act(now_);
  dumps->finish();
  ASSERT_THAT(errors, SizeIs(2));
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], told_.size() == 1 ? "no dump: the job has ended" : "");
}

TEST_F(JobDumpsTest, NobodyWaitsForTheRanksOfAHostThatIsGone) {
  const auto dumps = dumps_into(folder_);
  dumps->note_gone(1);
  dumps->on_occasion("rank 1 is lost", now_);
  answer(*dumps, {0});
  turn_until_said(*dumps, 1);
  EXPECT_THAT(said_, SizeIs(1));
  EXPECT_THAT(dumps->ranks(), ElementsAre(0, 1));
}

TEST_F(JobDumpsTest, SaysWhyThereIsNoDump) {
  const auto dumps = dumps_into("/proc/nowhere");
  std::string error;
  dumps->ask([&](const WrittenDump& dump) { error = dump.error; }, now_);
  answer(*dumps, {0, 1});
  turn_until_said(*dumps, 1);
  EXPECT_THAT(error, HasSubstr("cannot make the folder /proc/nowhere/rueda-dump-"));
  EXPECT_THAT(said_, ElementsAre(error));
}

}  // namespace
}  // namespace rueda
