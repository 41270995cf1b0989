// SPDX-License-Identifier: Apache-2.0
// Ranks of a program's job have the right numbers at ruedarun, or none.
#include "ops/bootstrap/ranks_of_launcher.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace rueda {
namespace {

using testing::ElementsAre;

TEST(RanksOfLauncher, TheProgramMayOrderThemAsItLikes) {
  EXPECT_THAT(ranks_of_launcher("job_7 0", {"job_7 3", "job_7 0", "job_7 12"}), ElementsAre(3, 0, 12));
}

TEST(RanksOfLauncher, ThoseOfOtherLaunchersAreNotKnown) {
  EXPECT_THAT(ranks_of_launcher("job_7 0", {"job_7 0", "", "job_71 1", "other 1"}),
              ElementsAre(0, -1, -1, -1));
  EXPECT_THAT(ranks_of_launcher("", {"", "job_7 0"}), ElementsAre(-1, -1));
  EXPECT_THAT(ranks_of_launcher("job_7", {"job_7 0"}), ElementsAre(-1)) << "no name of a rank";
  EXPECT_THAT(ranks_of_launcher("job_7 0", {"job_7 x", "job_7 ", "job_7 0"}), ElementsAre(-1, -1, 0));
}

TEST(RanksOfLauncher, ProcessesThatOneRankHasStartedAreNotKnown) {
  EXPECT_THAT(ranks_of_launcher("job_7 0", {"job_7 0", "job_7 1", "job_7 1"}), ElementsAre(0, -1, -1));
}

TEST(RanksOfLauncher, AProcessWithoutAnAgentHasNoName) {
  ::setenv("RUEDA_JOB", "job_7", 1);
  ::setenv("RUEDA_RANK", "1", 1);
  EXPECT_EQ(name_in_launcher(AgentLine()), "");
  ::unsetenv("RUEDA_JOB");
  ::unsetenv("RUEDA_RANK");
}

}  // namespace
}  // namespace rueda
