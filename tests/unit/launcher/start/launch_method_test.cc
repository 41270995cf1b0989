// SPDX-License-Identifier: Apache-2.0
// Which program starts the ranks, where variables of resource managers say one thing and the machine another.
#include "launcher/start/launch_method.h"

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
  EXPECT_EQ(plain.by, By::fork);
  EXPECT_THAT(plain.hosts, IsEmpty());
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
  for (const Map& variables : environments)
    EXPECT_EQ(way(variables, {"srun", "ssh"}).by, By::fork) << variables.begin()->first;
  Map in_container = slurm("node7");
  in_container["SLURMD_NODENAME"] = "node7";
  EXPECT_EQ(way(in_container, {}).by, By::fork) << "a container with another name";
}

TEST(LaunchMethod, VariablesThatAreNoAllocation) {
  EXPECT_EQ(way({{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NODELIST", "a,b"}}, {}).by, By::fork);
  EXPECT_EQ(way({{"PE_HOSTFILE", "/nowhere"}, {"JOB_ID", "1"}}, {}).by, By::fork);
  EXPECT_EQ(way({{"LSB_MCPU_HOSTS", "a 1 b 1"}}, {}).by, By::fork);
}

TEST(LaunchMethod, OtherHostsAreForTheManagersProgram) {
  Map variables = slurm("node[3-4],b");
  variables["SLURM_TASKS_PER_NODE"] = "2(x2),1";
  const LaunchMethod chosen = way(variables, {"srun"});
  EXPECT_EQ(chosen.by, By::srun);
  EXPECT_THAT(chosen.hosts, ElementsAre(HostSlots{"node3", 2}, HostSlots{"node4", 2}, HostSlots{"b", 1}));
  EXPECT_THAT(chosen.remedy,
              AllOf(HasSubstr("srun"), HasSubstr("node3,node4,b"), HasSubstr("SLURM_JOB_NODELIST")));
  const LaunchMethod by_ssh = way({{"PBS_NODEFILE", file_of("node3\nnode4\nnode3\n")}}, {"ssh"});
  EXPECT_EQ(by_ssh.by, By::remote_shell);
  EXPECT_THAT(by_ssh.words, ElementsAre("ssh", "-x"));
  EXPECT_THAT(by_ssh.hosts, ElementsAre(HostSlots{"node3", 2}, HostSlots{"node4", 1}));
  EXPECT_THAT(way({{"LSB_MCPU_HOSTS", "node3 2 node4 2"}, {"LSF_BINDIR", "/lsf"}}, {"/lsf/blaunch"}).words,
              ElementsAre("/lsf/blaunch"));
}

TEST(LaunchMethod, WithoutThatProgramTheRemedyIsToNameHosts) {
  EXPECT_THAT(error_of(slurm("node[3-4],b"), {"ssh"}),
              AllOf(HasSubstr("Slurm"), HasSubstr("'node3,node4,b'"), HasSubstr("SLURM_JOB_NODELIST"),
                    HasSubstr("no srun"), HasSubstr("-H localhost")));
  EXPECT_THAT(error_of({{"LSB_MCPU_HOSTS", "node3 2 node4 2"}, {"LSF_BINDIR", "/lsf"}}, {"blaunch"}),
              AllOf(HasSubstr("no /lsf/blaunch"), HasSubstr("'node3,node4'")));
  EXPECT_THAT(error_of({{"PE_HOSTFILE", file_of("a 1\n")}, {"SGE_ROOT", "/sge"}, {"ARC", "lx"}}, {}),
              HasSubstr("no /sge/bin/lx/qrsh"));
  EXPECT_THAT(error_of({{"LOADL_HOSTFILE", file_of("a\n")}, {"MP_CHILD", "0"}}, {}),
              HasSubstr("--launcher hydra"));
  EXPECT_THAT(error_of({{"PBS_NODEFILE", "/no/such/file"}}, {"ssh"}),
              AllOf(HasSubstr("PBS_NODEFILE"), HasSubstr("/no/such/file"), HasSubstr("-H localhost")));
}

TEST(LaunchMethod, NamedHostsWin) {
  EXPECT_EQ(way(slurm("a,b"), {}, {.hosts = "localhost:2,node3"}).by, By::fork);
  EXPECT_EQ(way(slurm("a,b"), {"srun", "ssh"}, {.hosts = "a:2,b"}).by, By::srun);
  const LaunchMethod by_ssh = way(slurm("a,b"), {"ssh"}, {.hosts = "a:2,b"});
  EXPECT_EQ(by_ssh.by, By::remote_shell);
  EXPECT_THAT(by_ssh.words, ElementsAre("ssh", "-x"));
  EXPECT_THAT(by_ssh.remedy, AllOf(HasSubstr("ssh HOST"), HasSubstr("'a,b'")));
  EXPECT_THAT(error_of({}, {}, {.hosts = "a,b"}), AllOf(HasSubstr("no ssh"), HasSubstr("'a,b'")));
}

TEST(LaunchMethod, AllNamesOfThisMachineAreOne) {
  EXPECT_THAT(way({}, {"ssh"}, {.hosts = "localhost:2,b,node3,127.0.0.1"}).hosts,
              ElementsAre(HostSlots{"localhost", 2}, HostSlots{"b", 1}, HostSlots{"localhost", 1},
                          HostSlots{"localhost", 1}));
}

TEST(LaunchMethod, InAnElasticJobEachNameIsAHost) {
  LaunchOptions options{.hosts = "localhost:2,127.0.0.1"};
  options.elastic.least = 1;
  const std::vector<HostSlots> hosts{{"localhost", 2}, {"127.0.0.1", 1}};
  EXPECT_EQ(way({}, {}, options).hosts, hosts);
  EXPECT_EQ(way({}, {}, options).by, By::fork);
  options.elastic.discovery_script = "x";
  EXPECT_EQ(way({}, {}, options).hosts, hosts);
  EXPECT_EQ(way({}, {}, options).by, By::remote_shell) << "others may come, and ssh may be there by then";
}

TEST(LaunchMethod, AnotherRemoteShell) {
  EXPECT_THAT(
      way({}, {"kubexec"}, {.hosts = "a,b", .remote_shell = {"kubexec", "-q"}, .ssh_words = " -p 3"}).words,
      ElementsAre("kubexec", "-q", "-p", "3"));
  EXPECT_THAT(way({{"RUEDA_REMOTE_SHELL", "lxc exec"}}, {"lxc"}, {.hosts = "a"}).words,
              ElementsAre("lxc", "exec"));
  EXPECT_THAT(way({{"HYDRA_LAUNCHER_EXEC", "/x"}}, {"/x"}, {.hosts = "a"}).words, ElementsAre("/x"));
  EXPECT_THAT(error_of({}, {"ssh"}, {.hosts = "a", .remote_shell = {"nothing"}}),
              HasSubstr("no nothing in PATH"));
}

TEST(LaunchMethod, HostsOfAnOperator) {
  const std::string lines = file_of("w0 slots=2\nw1 slots=2\n");
  EXPECT_THAT(
      way({{"OMPI_MCA_orte_default_hostfile", lines}, {"OMPI_MCA_plm_rsh_agent", "/k"}}, {"/k"}).hosts,
      ElementsAre(HostSlots{"w0", 2}, HostSlots{"w1", 2}));
}

TEST(Allocation, ListsOfHosts) {
  EXPECT_THAT(expand_host_list("a[01-03,7],b5,h[098-101]"),
              ElementsAre("a01", "a02", "a03", "a7", "b5", "h098", "h099", "h100", "h101"));
  EXPECT_THAT(expand_host_list("a[1-2][3-4]"), ElementsAre("a13", "a14", "a23", "a24"));
  EXPECT_THAT(expand_host_list("a[1-2]-ib,c"), ElementsAre("a1-ib", "a2-ib", "c"));
  EXPECT_THAT(expand_host_list(""), IsEmpty());
  EXPECT_LE(expand_host_list("a[0-2000000000]").size(), 1u << 20);
  EXPECT_THAT(expand_tasks("2(x3),1"), ElementsAre(2, 2, 2, 1));
}

}  // namespace
}  // namespace rueda
