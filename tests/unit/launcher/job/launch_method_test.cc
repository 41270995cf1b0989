// SPDX-License-Identifier: Apache-2.0
// Which program starts the ranks, where variables of resource managers say one thing and the machine another.
#include "launcher/job/launch_method.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

namespace rueda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using By = LaunchMethod::By;
using Map = std::map<std::string, std::string>;

// On the machine "node3", with these variables and programs.
LaunchMethod way(const Map& variables, const std::set<std::string>& programs,
                 const LaunchOptions& options = {}) {
  return launch_method(options,
                       {.variable = [&](const char* name) -> const char* {
                          const auto found = variables.find(name);
                          return found == variables.end() ? nullptr : found->second.c_str();
                        },
                        .host = "node3",
                        .is_there = [&](const std::string& program) { return programs.contains(program); }});
}

std::string error_of(const Map& variables, const std::set<std::string>& programs,
                     const LaunchOptions& options = {}) {
  try {
    way(variables, programs, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

Map slurm(const std::string& nodes) {
  return {{"SLURM_JOB_NODELIST", nodes}, {"SLURM_NNODES", "1"}, {"SLURM_TASKS_PER_NODE", "2"}};
}

std::string file_of(const std::string& text) {
  const std::string path = ::testing::TempDir() + "rueda_hosts_" + std::to_string(::getpid());
  std::ofstream(path) << text;
  return path;
}

TEST(LaunchMethod, WithoutAllocationAndHostsItIsThisMachine) {
  const LaunchMethod plain = way({}, {});
  EXPECT_EQ(plain.by, By::this_machine);
  EXPECT_FALSE(plain.other_hosts);
  EXPECT_THAT(plain.words, ElementsAre("-rmk", "user", "-launcher", "fork"));
}

TEST(LaunchMethod, AnAllocationOfThisMachineNeedsNoProgramOfTheManager) {
  const std::string lines = file_of("node3.cluster 2 all.q UNDEF\nnode3.cluster\n");
  const std::vector<Map> environments{
      slurm("node3"),
      {{"SLURM_NODELIST", "node3.cluster"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_TASKS_PER_NODE", "2"}},
      {{"LSB_MCPU_HOSTS", "node3 2"}, {"LSF_BINDIR", "/lsf"}},
      {{"PE_HOSTFILE", lines}, {"SGE_ROOT", "/sge"}, {"ARC", "lx"}, {"JOB_ID", "1"}},
      {{"LOADL_HOSTFILE", lines}, {"MP_CHILD", "0"}},
      {{"PBS_NODEFILE", lines}},
      {{"COBALT_NODEFILE", lines}}};
  for (const Map& variables : environments) {
    const LaunchMethod chosen = way(variables, {"srun", "ssh"});
    EXPECT_EQ(chosen.by, By::this_machine) << variables.begin()->first;
    EXPECT_FALSE(chosen.other_hosts) << variables.begin()->first;
  }
  Map in_container = slurm("node7");
  in_container["SLURMD_NODENAME"] = "node7";
  EXPECT_EQ(way(in_container, {}).by, By::this_machine) << "a container with another name";
}

TEST(LaunchMethod, VariablesThatHydraDoesNotTakeForAnAllocation) {
  EXPECT_EQ(way({{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NODELIST", "a,b"}}, {}).by, By::this_machine);
  EXPECT_EQ(way({{"PE_HOSTFILE", "/nowhere"}, {"JOB_ID", "1"}}, {}).by, By::this_machine);
  EXPECT_EQ(way({{"LSB_MCPU_HOSTS", "a 1 b 1"}}, {}).by, By::this_machine);
}

TEST(LaunchMethod, OtherHostsAreForTheManagersProgram) {
  const LaunchMethod chosen = way(slurm("node[3-4]"), {"srun"});
  EXPECT_EQ(chosen.by, By::manager);
  EXPECT_TRUE(chosen.other_hosts);
  EXPECT_THAT(chosen.words, IsEmpty()) << "Hydra finds it by itself";
  EXPECT_THAT(chosen.remedy,
              AllOf(HasSubstr("srun"), HasSubstr("node[3-4]"), HasSubstr("SLURM_JOB_NODELIST")));
  const std::string lines = file_of("node3\nnode4\n");
  EXPECT_EQ(way({{"PBS_NODEFILE", lines}}, {"ssh"}).program, "ssh");
  EXPECT_EQ(way({{"LSB_MCPU_HOSTS", "node3 2 node4 2"}, {"LSF_BINDIR", "/lsf"}}, {"/lsf/blaunch"}).program,
            "/lsf/blaunch");
}

TEST(LaunchMethod, WithoutThatProgramTheRemedyIsToNameHosts) {
  EXPECT_THAT(error_of(slurm("node[3-4],b"), {"ssh"}),
              AllOf(HasSubstr("Slurm"), HasSubstr("'node[3-4],b'"), HasSubstr("SLURM_JOB_NODELIST"),
                    HasSubstr("no srun"), HasSubstr("-H localhost")));
  EXPECT_THAT(error_of({{"LSB_MCPU_HOSTS", "node3 2 node4 2"}, {"LSF_BINDIR", "/lsf"}}, {"blaunch"}),
              AllOf(HasSubstr("no /lsf/blaunch"), HasSubstr("'node3,node4'")));
  EXPECT_THAT(error_of({{"PE_HOSTFILE", file_of("a 1\n")}, {"SGE_ROOT", "/sge"}, {"ARC", "lx"}}, {}),
              HasSubstr("no /sge/bin/lx/qrsh"));
  EXPECT_THAT(error_of({{"PBS_NODEFILE", "/no/such/file"}}, {"ssh"}),
              AllOf(HasSubstr("PBS_NODEFILE"), HasSubstr("/no/such/file"), HasSubstr("-H localhost")));
}

TEST(LaunchMethod, NamedHostsWin) {
  EXPECT_EQ(way(slurm("a,b"), {}, {.hosts = "localhost:2,node3"}).by, By::this_machine);
  EXPECT_EQ(way({{"PBS_NODEFILE", "/no/such/file"}}, {}, {.hosts = "node3:2"}).by, By::this_machine);
  const LaunchMethod by_srun = way(slurm("a,b"), {"srun", "ssh"}, {.hosts = "a:2,b"});
  EXPECT_EQ(by_srun.program, "srun");
  EXPECT_THAT(by_srun.remedy, HasSubstr("'a:2,b' (-H)"));
  const LaunchMethod by_ssh = way(slurm("a,b"), {"ssh"}, {.hosts = "a:2,b"});
  EXPECT_EQ(by_ssh.by, By::ssh);
  EXPECT_THAT(by_ssh.words, ElementsAre("-rmk", "user", "-launcher", "ssh"));
  EXPECT_THAT(by_ssh.remedy, AllOf(HasSubstr("ssh HOST"), HasSubstr("'a:2,b'")));
  EXPECT_THAT(error_of({}, {}, {.hosts = "a,b"}), AllOf(HasSubstr("no ssh"), HasSubstr("'a,b'")));
}

TEST(LaunchMethod, WhatTheUserHasChosenForHydraStays) {
  EXPECT_EQ(way({{"HYDRA_LAUNCHER", "fork"}}, {}, {.hosts = "a,b"}).by, By::user);
  EXPECT_THAT(way({{"HYDRA_LAUNCHER_EXEC", "/x"}}, {}, {.hosts = "a,b"}).words, IsEmpty());
  EXPECT_EQ(way({}, {}, {.mpiexec_words = {"-launcher", "ssh"}}).by, By::user);
  EXPECT_EQ(way({}, {}, {.mpiexec_words = {"--rmk", "user"}}).by, By::user);
  EXPECT_EQ(way({}, {}, {.mpiexec_words = {"-bind-to", "core"}}).by, By::this_machine);
  EXPECT_FALSE(way({{"HYDRA_LAUNCHER", "fork"}}, {}).other_hosts);
  EXPECT_TRUE(way({{"HYDRA_HOST_FILE", "/x"}}, {}).other_hosts);
}

TEST(LaunchMethod, AnOuterLauncherIsForgotten) {
  ::setenv("PMI_RANK", "3", 1);
  ::setenv("PMIX_NAMESPACE", "x", 1);
  ::setenv("HYDI_CONTROL_FD", "9", 1);
  ::setenv("PMISTAKE", "stays", 1);
  forget_outer_launcher();
  for (const char* name : {"PMI_RANK", "PMIX_NAMESPACE", "HYDI_CONTROL_FD"})
    EXPECT_EQ(std::getenv(name), nullptr);
  EXPECT_STREQ(std::getenv("PMISTAKE"), "stays");
  ::unsetenv("PMISTAKE");
}

}  // namespace
}  // namespace rueda
