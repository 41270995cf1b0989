// SPDX-License-Identifier: Apache-2.0
// The variables of a rank.
#include "launcher/job/environment.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace rueda {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Environment, ThreadsForEachRank) {
  int cores = threads_for_each(1);
  EXPECT_GE(cores, 1);
  EXPECT_EQ(threads_for_each(2), cores / 2 > 0 ? cores / 2 : 1);
  EXPECT_EQ(threads_for_each(100000), 1);
}

TEST(Environment, AnOuterLauncherIsForgotten) {
  const std::string value = "two\nlines of () { text; } " + std::string(100'000, 'x');
  for (const char* name :
       {"PMI_RANK", "PMIX_NAMESPACE", "HYDI_CONTROL_FD", "RUEDA_AGENT_LINE", "RUEDA_LAUNCH_X"})
    ::setenv(name, "3", 1);
  ::setenv("PMISTAKE", value.c_str(), 1);
  const std::vector<std::string> job = job_environment();
  for (const char* name : {"PMI_", "PMIX_", "HYDI_", "RUEDA_AGENT_LINE", "RUEDA_LAUNCH_"})
    EXPECT_THAT(job, Not(Contains(StartsWith(name))));
  EXPECT_THAT(job, Contains("PMISTAKE=" + value));
  for (const char* name :
       {"PMI_RANK", "PMIX_NAMESPACE", "HYDI_CONTROL_FD", "RUEDA_AGENT_LINE", "RUEDA_LAUNCH_X", "PMISTAKE"})
    ::unsetenv(name);
}

TEST(Environment, OwnValuesReplaceAndDefaultsFillIn) {
  EXPECT_THAT(rank_environment({"A=1", "B=2", "C="}, {{"B", "3"}}, {{"A", "9"}, {"C", "9"}, {"D", "4"}}),
              ElementsAre("A=1", "C=", "B=3", "D=4"));
}

TEST(Environment, ARankKnowsItsSlotByAllNames) {
  const EnvironmentMap variables = rank_variables({3, 8, 1, 2, 1, 4}, "node3");
  EXPECT_EQ(variables.at("HOROVOD_HOSTNAME"), "node3");
  EXPECT_EQ(variables.at("RUEDA_RANK"), "3");
  EXPECT_EQ(variables.at("HOROVOD_LOCAL_SIZE"), "2");
  EXPECT_EQ(variables.at("RUEDA_CROSS_SIZE"), "4");
  EXPECT_EQ(variables.at("PMI_SIZE"), "8");
}

}  // namespace
}  // namespace rueda
