// SPDX-License-Identifier: Apache-2.0
// By which method a process finds its job, from the variables that launchers set.
#include "ops/bootstrap/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/base/error.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Launch launch_of(const Variables& variables, bool mpi_has_begun = false) {
  const auto lookup = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return find_launch(
      read_config(lookup).config, [&](const char* name) { return lookup(name); }, mpi_has_begun);
}

std::string error_of(const Variables& variables) {
  try {
    launch_of(variables);
  } catch (const BackendError& error) {
    return error.what();
  }
  return "";
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kSrun{{"SLURM_STEP_ID", "0"},        {"SLURM_JOB_ID", "17"},
                      {"SLURM_PROCID", "1"},         {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "a[01-03,7],b5"}};
const Variables kMpiexec{{"PMI_FD", "7"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};

TEST(Launch, OneProcessIsAlone) {
  const Launch launch = launch_of({});
  EXPECT_EQ(launch.method, BootstrapMethod::alone);
  EXPECT_EQ(launch.size, 1);
}

TEST(Launch, Ruedarun) {
  const Variables ours = with(kMpiexec, {{"RUEDA_AGENT_LINE", "201:9:1"},
                                         {"RUEDA_RANK", "2"},
                                         {"RUEDA_SIZE", "4"},
                                         {"RUEDA_LOCAL_SIZE", "2"},
                                         {"FI_PROVIDER", "tcp"}});
  const Launch launch = launch_of(ours);
  EXPECT_EQ(launch.method, BootstrapMethod::launcher);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_FALSE(launch.one_host);
  EXPECT_TRUE(launch_of(with(ours, {{"RUEDA_LOCAL_SIZE", "4"}})).one_host);
  EXPECT_EQ(launch_of(with(ours, {{"RUEDA_STORE", "a:1"}})).method, BootstrapMethod::launcher);
  EXPECT_EQ(launch_of(ours, true).method, BootstrapMethod::mpi) << "the program has begun MPI";
  EXPECT_EQ(launch_of(with(ours, {{"RUEDA_NETWORK", "mpi"}})).method, BootstrapMethod::mpi);
  EXPECT_EQ(launch_of(with(ours, {{"FI_PROVIDER", "verbs"}})).method, BootstrapMethod::mpi);
  EXPECT_EQ(launch_of(with(ours, {{"MPIR_CVAR_CH4_NETMOD", "ucx"}})).method, BootstrapMethod::mpi);
  EXPECT_EQ(launch_of(with(ours, {{"FI_PROVIDER", "verbs"}, {"RUEDA_NETWORK", "tcp"}})).method,
            BootstrapMethod::launcher);
  EXPECT_EQ(launch_of(with(ours, {{"RUEDA_BOOTSTRAP", "pmi"}})).method, BootstrapMethod::pmi);
}

TEST(Launch, Torchrun) {
  Launch launch = launch_of(kTorchrun);
  EXPECT_EQ(launch.method, BootstrapMethod::torchrun);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.host, "node1");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_FALSE(launch.one_host);
  EXPECT_TRUE(launch_of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}})).one_host);
  // Without the agent's store nobody listens there but rank 0.
  Variables by_hand = kTorchrun;
  by_hand.erase("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_EQ(launch_of(by_hand).method, BootstrapMethod::store);
  EXPECT_EQ(launch_of(with(kTorchrun, {{"RANK", "0"}, {"WORLD_SIZE", "1"}})).method, BootstrapMethod::alone);
}

TEST(Launch, RanksThatNothingBringsTogetherAreRefused) {
  const Variables numbered{{"RUEDA_RANK", "0"}, {"RUEDA_SIZE", "2"}};
  EXPECT_THAT([&] { launch_of(numbered); },
              testing::ThrowsMessage<BackendError>(testing::HasSubstr("Set RUEDA_STORE=HOST:PORT, or")));
  EXPECT_EQ(launch_of(with(numbered, {{"RUEDA_SIZE", "1"}})).method, BootstrapMethod::alone);
  // A program that a rank of ruedarun's has started, for a job of its own.
  EXPECT_EQ(launch_of(with(numbered, {{"RUEDA_LOCAL_RANK", "0"}})).method, BootstrapMethod::alone);
  EXPECT_EQ(launch_of(with(numbered,
                           {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}))
                .method,
            BootstrapMethod::store);
}

TEST(Launch, SrunWithoutPmi) {
  Launch launch = launch_of(kSrun);
  EXPECT_EQ(launch.method, BootstrapMethod::slurm);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.host, "a01");
  EXPECT_GE(launch.port, 61440);
  EXPECT_NE(launch.port, launch_of(with(kSrun, {{"SLURM_STEP_ID", "1"}})).port);
  EXPECT_EQ(launch_of(with(kSrun, {{"SLURM_STEP_RESV_PORTS", "12004-12005"}})).port, 12004);
  EXPECT_TRUE(launch_of(with(kSrun, {{"SLURM_STEP_NUM_NODES", "1"}})).one_host);
  // The shell of sbatch has all but the step's number, and is alone.
  Variables batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(launch_of(batch).method, BootstrapMethod::alone);
}

TEST(Launch, AProcessManagerIsLeftToMpiUnlessPmiIsAskedFor) {
  EXPECT_EQ(launch_of(kMpiexec).method, BootstrapMethod::mpi);
  const Launch launch = launch_of(with(kMpiexec, {{"RUEDA_BOOTSTRAP", "pmi"}}));
  EXPECT_EQ(launch.method, BootstrapMethod::pmi);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_TRUE(launch.one_host);
  Variables slurm{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "7.0"}, {"RUEDA_BOOTSTRAP", "pmi"}};
  EXPECT_FALSE(launch_of(with(slurm, {{"SLURM_STEP_NUM_NODES", "2"}})).one_host);
  EXPECT_TRUE(launch_of(with(slurm, {{"SLURM_STEP_NUM_NODES", "1"}})).one_host);
  EXPECT_EQ(launch_of({}, true).method, BootstrapMethod::mpi);
  EXPECT_EQ(launch_of(with(kMpiexec, {{"RUEDA_BOOTSTRAP", "alone"}})).method, BootstrapMethod::alone);
}

TEST(Launch, PmixIsLeftToMpiUnlessItIsAskedFor) {
  const Variables pmix = with(kSrun, {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "slurm.pmix.17.0"}});
  EXPECT_EQ(launch_of(pmix).method, BootstrapMethod::mpi);
  EXPECT_EQ(launch_of(with(pmix, {{"RUEDA_BOOTSTRAP", "pmix"}})).method, BootstrapMethod::pmix);
  EXPECT_EQ(launch_of(with(pmix, {{"RUEDA_BOOTSTRAP", "slurm"}})).method, BootstrapMethod::slurm);
  EXPECT_EQ(launch_of(with(pmix, {{"RUEDA_STORE", "a:1"}})).method, BootstrapMethod::store);
}

TEST(Launch, AStoreThatTheUserNamesComesFirst) {
  for (const Variables& launcher : {kTorchrun, kSrun, kMpiexec}) {
    const Launch launch = launch_of(with(launcher, {{"RUEDA_STORE", "[::1]:4242"}}));
    EXPECT_EQ(launch.method, BootstrapMethod::store);
    EXPECT_EQ(launch.host, "::1");
    EXPECT_EQ(launch.port, 4242);
    EXPECT_TRUE(launch.one_host);
  }
  const Launch own =
      launch_of(with(kTorchrun, {{"RUEDA_STORE", "node7:1"}, {"RUEDA_RANK", "0"}, {"RUEDA_SIZE", "9"}}));
  EXPECT_EQ(own.rank, 0);
  EXPECT_EQ(own.size, 9);
  EXPECT_FALSE(own.one_host);
}

TEST(Launch, AFolder) {
  const Launch launch =
      launch_of({{"RUEDA_BOOTSTRAP", "file:/shared/job"}, {"RUEDA_RANK", "1"}, {"RUEDA_SIZE", "2"}});
  EXPECT_EQ(launch.method, BootstrapMethod::file);
  EXPECT_EQ(launch.folder, "/shared/job");
}

TEST(Launch, ErrorsNameTheVariables) {
  EXPECT_THAT(error_of({{"RUEDA_STORE", "node7:4242"}}), HasSubstr("Set RUEDA_RANK and RUEDA_SIZE"));
  EXPECT_THAT(error_of({{"RUEDA_STORE", "node7"}, {"RUEDA_RANK", "0"}, {"RUEDA_SIZE", "2"}}),
              HasSubstr("RUEDA_STORE='node7' is no HOST:PORT"));
  EXPECT_THAT(error_of({{"RUEDA_STORE", "node7:1"}, {"RUEDA_RANK", "2"}, {"RUEDA_SIZE", "2"}}),
              HasSubstr("RUEDA_RANK='2' and RUEDA_SIZE='2'"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"RANK", "x"}})), HasSubstr("RANK='x'"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_PORT", "0"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(error_of({{"RUEDA_BOOTSTRAP", "file:/x"}}), HasSubstr("RUEDA_RANK"));
  EXPECT_THAT(error_of({{"RUEDA_BOOTSTRAP", "pmix"}, {"PMIX_RANK", "0"}}),
              HasSubstr("PMIX_NAMESPACE are not set"));
}

TEST(Launch, TheFirstHostOfAList) {
  EXPECT_EQ(first_host_of("a[01-03,7],b5"), "a01");
  EXPECT_EQ(first_host_of("b5,a[1-2]"), "b5");
  EXPECT_EQ(first_host_of("a[1-2][3-4]"), "a13");
  EXPECT_EQ(first_host_of("h[098,101]-x"), "h098-x");
  EXPECT_EQ(first_host_of("solo"), "solo");
  EXPECT_EQ(first_host_of(""), "");
  EXPECT_EQ(first_host_of("a[01"), "a01");
}

TEST(Launch, HostAndPort) {
  EXPECT_EQ(host_and_port_from("node7:4242"), (HostAndPort{"node7", 4242}));
  EXPECT_EQ(host_and_port_from("[fd00::2]:1"), (HostAndPort{"fd00::2", 1}));
  for (const char* wrong :
       {"", ":", "node7", "node7:", "node7:0", "node7:65536", ":4242", "fd00::2:4242", "a:b:1", "x:1 "})
    EXPECT_FALSE(host_and_port_from(wrong)) << wrong;
}

}  // namespace
}  // namespace rueda
