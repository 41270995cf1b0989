// SPDX-License-Identifier: Apache-2.0
// Words on their way through Hydra.
#include "launcher/job/hydra.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rueda {
namespace {

TEST(Hydra, WordsComeBackAsTheyWere) {
  for (const char* word : {"", ":", ":x", "\\", "\\:", "\\\\", "plain", "a:b", " ", "--help"}) {
    std::string there = disguised(word);
    EXPECT_NE(there, ":");
    EXPECT_NE(there, "");
    EXPECT_EQ(undisguised(there), word);
  }
}

TEST(Hydra, TheUsersWordsComeBehindTheWayToStart) {
  LaunchOptions options{.ranks = 1, .mpiexec_words = {"-v"}, .command = {"prog"}};
  std::vector<std::string> command = mpiexec_command("/m/mpiexec", options, "LABEL", {"-launcher", "fork"});
  auto way = std::find(command.begin(), command.end(), "-launcher");
  ASSERT_LE(way + 3, command.end());
  EXPECT_EQ(std::vector<std::string>(way, way + 3), (std::vector<std::string>{"-launcher", "fork", "-v"}));
}

TEST(Hydra, CommandLine) {
  LaunchOptions options{.ranks = 3, .hosts = "a,b", .command = {"prog", ":"}};
  std::vector<std::string> command = mpiexec_command("/m/mpiexec", options, "LABEL");
  EXPECT_EQ(command.front(), "/m/mpiexec");
  EXPECT_NE(std::find(command.begin(), command.end(), "LABEL"), command.end());
  auto agent = std::find(command.begin(), command.end(), "--agent");
  EXPECT_EQ(std::vector<std::string>(agent, command.end()),
            (std::vector<std::string>{"--agent", "--", "prog", "\\:"}));
}

}  // namespace
}  // namespace rueda
