// SPDX-License-Identifier: Apache-2.0
// Files that are written whole, and leftovers of writers that were killed.
#include "core/base/files/whole_file.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace rueda {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<std::string> names_in(const ScratchFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.push_back(entry.path().filename());
  return names;
}

// A process that has begun to write the file, and is killed.
void be_killed_while_writing(const std::filesystem::path& path) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    WholeFile file(path);
    file.write("half");
    ::raise(SIGKILL);
  }
  ::waitpid(writer, nullptr, 0);
}

TEST(WholeFile, IsThereOnceItIsCommitted) {
  const ScratchFolder folder;
  for (const bool durable : {true, false}) {
    const auto path = folder.path() / (durable ? "durable" : "file");
    WholeFile file(path);
    file.write("text");
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit(durable);
    EXPECT_EQ(read_file(path), "text");
  }
  { WholeFile given_up(folder.path() / "other"); }
  EXPECT_THAT(names_in(folder), UnorderedElementsAre("durable", "file"));
}

TEST(WholeFile, RemovesWhatKilledWritersOfThatPathHaveLeft) {
  const ScratchFolder folder;
  const auto path = folder.path() / "file", other = folder.path() / "file.2";
  for (int i = 0; i < 3; ++i) be_killed_while_writing(path);
  EXPECT_EQ(names_in(folder).size(), 1u);
  be_killed_while_writing(other);
  folder.write(".file.0123.partial", "a user's own");
  WholeFile file(path);
  file.commit();
  std::vector<std::string> left = names_in(folder);
  EXPECT_EQ(left.size(), 3u) << "of the other path, too";
  EXPECT_THAT(left, Contains("file"));
  EXPECT_THAT(left, Contains(".file.0123.partial"));
}

TEST(WholeFile, ALongNameHasLeftoversToo) {
  const ScratchFolder folder;
  const auto path = folder.path() / std::string(250, 'x');
  be_killed_while_writing(path);
  WholeFile(path).commit();
  EXPECT_THAT(names_in(folder), ElementsAre(std::string(250, 'x')));
}

TEST(WholeFile, LeavesAWriterAloneThatLives) {
  const ScratchFolder folder;
  const auto path = folder.path() / "file";
  WholeFile slow(path);
  slow.write("slow");
  WholeFile quick(path);
  quick.write("quick");
  quick.commit(false);
  EXPECT_EQ(read_file(path), "quick");
  slow.commit(false);
  EXPECT_EQ(read_file(path), "slow");
}

TEST(WholeFile, ManyWritersOfOnePathAllSucceed) {
  const ScratchFolder folder;
  const auto path = folder.path() / "file";
  constexpr int kWriters = 8, kTimes = 200;
  std::vector<pid_t> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.push_back(::fork());
    if (writers.back() != 0) continue;
    try {
      for (int time = 0; time < kTimes; ++time) WholeFile(path).commit(false);
      ::_exit(0);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  for (const pid_t writer : writers) {
    int status = -1;
    ::waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(names_in(folder), ElementsAre("file"));
}

}  // namespace
}  // namespace rueda
