// SPDX-License-Identifier: Apache-2.0
// Variables that launchers leave in the environment, beside MPI libraries that do not know them.
#include "ops/link/launcher_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "core/base/error.h"

namespace rueda {
namespace {

constexpr const char* kMpich = "MPICH Version: 5.0.2\nMPICH configure: --with-device=ch4:ofi --with-pm=hydra";
constexpr const char* kMpichWithPmix = "MPICH Version: 5.0.2\nMPICH configure: --with-pmix=/usr --with-pm=no";

// Purpose: an environment with these variables and no other one of a launcher, while it lives.
class LaunchedBy {
 public:
  LaunchedBy(std::initializer_list<const char*> settings) {
    for (const std::string setting : settings) {
      const std::size_t sign = setting.find('=');
      ::setenv(setting.substr(0, sign).c_str(), setting.substr(sign + 1).c_str(), 1);
    }
  }
  ~LaunchedBy() { clear(); }

  static void clear() {
    for (const char* name :
         {"PMI_SIZE", "PMI_PORT", "PMIX_NAMESPACE", "PMIX_RANK", "PMIX_VERSION", "PRTE_LAUNCHED",
          "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "TORCHELASTIC_RUN_ID", "HOROVOD_SIZE"})
      ::unsetenv(name);
  }
};

std::string refusal(const char* mpi_version) {
  try {
    check_launcher_is_understood(mpi_version);
  } catch (const BackendError& error) {
    return error.what();
  }
  return "";
}

TEST(Launched, MpichWithoutPmixIsNotBegunByPmix) {
  LaunchedBy::clear();
  {
    const LaunchedBy several{"PMIX_RANK=0", "PMIX_NAMESPACE=x", "SLURM_STEP_NUM_TASKS=2"};
    EXPECT_NE(refusal(kMpich).find("srun has started 2 processes"), std::string::npos) << refusal(kMpich);
  }
  const LaunchedBy one{"PMIX_RANK=0", "PMIX_NAMESPACE=x", "SLURM_STEP_NUM_TASKS=1"};
  EXPECT_NE(refusal(kMpich).find("unset PMIX_NAMESPACE, PMIX_RANK"), std::string::npos) << refusal(kMpich);
}

TEST(Launched, AStartThatMayWorkIsNotRefused) {
  LaunchedBy::clear();
  EXPECT_EQ(refusal(kMpich), "") << "no launcher";
  {
    const LaunchedBy pmix{"PMIX_RANK=0", "PMIX_NAMESPACE=x", "SLURM_STEP_NUM_TASKS=2"};
    EXPECT_EQ(refusal(kMpichWithPmix), "");
    EXPECT_EQ(refusal("Open MPI v5.0.8"), "");
  }
  const LaunchedBy both{"PMIX_RANK=0", "PMI_SIZE=2"};
  EXPECT_EQ(refusal(kMpich), "") << "PMI";
}

}  // namespace
}  // namespace rueda
