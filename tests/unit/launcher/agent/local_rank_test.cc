// SPDX-License-Identifier: Apache-2.0
// A rank's process with its streams, and the cores of ranks.
#include "launcher/agent/local_rank.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "launcher/job/environment.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;

// Output and errors until both have ended.
std::array<std::string, 2> all_output(LocalRank& rank) {
  std::array<std::string, 2> text;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!rank.output_is_over() && std::chrono::steady_clock::now() < give_up) {
    for (std::size_t stream = 0; stream < 2; ++stream) text[stream] += rank.read_output(stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(rank.output_is_over());
  return text;
}

LocalRank started(const std::vector<std::string>& command, const std::string& folder = "/") {
  const agents::Launch launch{.ranks = {{1, 4, 1, 2, 0, 2}},
                              .command = command,
                              .environment = {"PATH=/usr/bin:/bin", "TEXT=two\nlines"},
                              .folder = folder};
  return LocalRank(launch.ranks.front(),
                   {launch, Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)), {0}, 77});
}

TEST(LocalRank, HasItsSlotItsVariablesAndItsLimits) {
  LocalRank rank = started({"sh", "-c",
                            "echo $RUEDA_RANK $HOROVOD_SIZE \"$TEXT\" $(pwd) $(ulimit -Sn); echo oops >&2; "
                            "grep Cpus_allowed_list /proc/self/status; exit 3"});
  const auto [output, errors] = all_output(rank);
  EXPECT_EQ(output, "1 4 two\nlines / 77\nCpus_allowed_list:\t0\n");
  EXPECT_EQ(errors, "oops\n");
  int status = 0;
  EXPECT_EQ(::waitpid(rank.process(), &status, 0), rank.process());
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(LocalRank, AProgramOrAFolderThatIsNotThereIsTold) {
  LocalRank program = started({"/no/such/program"});
  EXPECT_THAT(all_output(program)[1], HasSubstr("cannot start '/no/such/program': No such file"));
  LocalRank folder = started({"true"}, "/no/such/folder");
  EXPECT_THAT(all_output(folder)[1], HasSubstr("no folder '/no/such/folder'"));
  for (const LocalRank* rank : {&program, &folder}) ::waitpid(rank->process(), nullptr, 0);
}

TEST(LocalRank, SignalsReachItsWholeGroup) {
  LocalRank rank = started({"sh", "-c", "sleep 60 & echo up; wait"});
  std::string text;
  while (text.empty()) text += rank.read_output(0);
  rank.signal_main(SIGTERM);  // nobody has joined: for all
  all_output(rank);
  int status = 0;
  EXPECT_EQ(::waitpid(rank.process(), &status, 0), rank.process());
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(LocalRank, ATerminalInPlaceOfPipes) {
  const agents::Launch launch{
      .ranks = {{0, 1, 0, 1, 0, 1}},
      .command = {"sh", "-c", "read x; echo $x; echo oops >&2; stty size; sleep 60 & wait"},
      .environment = {"PATH=/usr/bin:/bin"},
      .folder = "/"};
  const auto terminal = std::make_shared<PseudoTerminal>(TerminalSize{.rows = 12, .columns = 34});
  LocalRank rank(launch.ranks.front(), {launch, Descriptor(), {}, 0, terminal});
  EXPECT_EQ(rank.output(1), -1);
  ASSERT_EQ(::write(terminal->descriptor(), "in\n", 3), 3);
  std::string text;
  while (text.find("12 34\r\n") == text.npos) text += rank.read_output(0);
  EXPECT_EQ(text, "in\r\nin\r\noops\r\n12 34\r\n");
  EXPECT_TRUE(rank.has_the_keys());
  rank.signal_all(SIGTSTP);
  int status = 0;
  EXPECT_EQ(::waitpid(rank.process(), &status, WUNTRACED), rank.process());
  EXPECT_TRUE(WIFSTOPPED(status)) << "nobody else could stop it";
  rank.signal_all(SIGTERM);
  EXPECT_EQ(::waitpid(rank.process(), &status, 0), rank.process());
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  rank.note_end();
  EXPECT_FALSE(rank.has_the_keys());
  EXPECT_EQ(all_output(rank)[0], "");
}

TEST(LocalRank, CoresInEqualShares) {
  const auto all = threads_for_each(1);
  const auto shares = cores_of_ranks(agents::Binding::core, all);
  ASSERT_EQ(shares.size(), static_cast<std::size_t>(all));
  for (const std::vector<int>& share : shares) EXPECT_EQ(share.size(), 1u);
  for (const auto& share : cores_of_ranks(agents::Binding::core, all + 1)) EXPECT_TRUE(share.empty());
  for (const auto& share : cores_of_ranks(agents::Binding::none, all)) EXPECT_TRUE(share.empty());
  for (const auto& share : cores_of_ranks(agents::Binding::socket, all)) EXPECT_FALSE(share.empty());
}

}  // namespace
}  // namespace rueda
