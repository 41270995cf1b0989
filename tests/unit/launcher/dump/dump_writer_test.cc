// SPDX-License-Identifier: Apache-2.0
// Folders and files of dumps.
#include "launcher/dump/dump_writer.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/launcher/dump/recorded_ranks.h"

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DumpWriter : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "rueda-dump-test-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  DumpFacts facts_{.command = "train.py",
                   .process = 17,
                   .reason = "rank 1 is lost",
                   .unix_seconds = 1e9,
                   .ranks = {{0, "rank 0 (process 5 on a)"}, {1, "rank 1 (process 6 on a)"}}};
};

TEST_F(DumpWriter, WritesAFileForEachRankAndATextAndNeverOverOlderOnes) {
  RecordedRanks ranks(2);
  ranks.complete(RecordedRanks::request("x"), 1);
  const WrittenDump first = write_dump(folder_ + "/new", facts_, ranks.answers());
  EXPECT_EQ(first.error, "");
  EXPECT_EQ(first.folder, folder_ + "/new/rueda-dump-20010909-014640-17");
  EXPECT_THAT(first.files, ElementsAre("job.txt", "rank_0", "rank_1"));
  const WrittenDump second = write_dump(folder_ + "/new", facts_, ranks.answers());
  EXPECT_EQ(second.folder, first.folder + "-2");
  std::ifstream text(first.folder + "/job.txt");
  const std::string all{std::istreambuf_iterator<char>(text), {}};
  EXPECT_TRUE(all.starts_with(first.summary));
  EXPECT_THAT(all, HasSubstr("rank 0 (process 5 on a)\n"));
}

TEST_F(DumpWriter, AnAnswerThatIsNoneCountsAsNone) {
  RecordedRanks ranks(2);
  std::map<int, std::string> answers = ranks.answers();
  answers[1] = "nonsense";
  const WrittenDump dump = write_dump(folder_, facts_, answers);
  EXPECT_THAT(dump.files, ElementsAre("job.txt", "rank_0"));
  EXPECT_THAT(dump.summary, HasSubstr("Nothing has come from rank 1."));
}

TEST_F(DumpWriter, SaysWhyItCannotWrite) {
  RecordedRanks ranks(1);
  std::ofstream(folder_ + "/file") << "x";
  const WrittenDump dump = write_dump(folder_ + "/file", facts_, ranks.answers());
  EXPECT_THAT(dump.error, HasSubstr("cannot make the folder " + folder_ + "/file/rueda-dump-"));
  EXPECT_THAT(dump.error, HasSubstr("Not a directory"));
  EXPECT_NE(dump.summary, "");
}

}  // namespace
}  // namespace rueda
