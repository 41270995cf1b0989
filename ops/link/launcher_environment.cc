// SPDX-License-Identifier: Apache-2.0
#include "ops/link/launcher_environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace rueda {
namespace {

// The variables in which launchers leave the number of ranks, and the remedy if ranks do not meet.
struct Announcement {
  const char* variable;
  const char* launcher;
  const char* remedy;
  const char* its_own = nullptr;  // without which the variable is not the launcher's
};
constexpr Announcement kAnnouncements[] = {
    {"PMI_SIZE", "the launcher", "Use ruedarun, or the mpiexec of the MPI library that Rueda is built with"},
    {"OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI",
     "Use ruedarun, or the mpiexec of the MPI library that Rueda is built with, or set RUEDA_BOOTSTRAP=pmix"},
    {"SLURM_STEP_NUM_TASKS", "srun",
     "Use srun --mpi=pmi2, or ruedarun in an allocation, or set RUEDA_BOOTSTRAP=pmix for srun --mpi=pmix"},
    {"WORLD_SIZE", "torchrun", "Use ruedarun", "TORCHELASTIC_RUN_ID"},
    {"HOROVOD_SIZE", "horovodrun", "Use ruedarun", "HOROVOD_CONTROLLER"},  // ruedarun sets the first, too
};

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

// By which MPICH knows a launcher that speaks PMIx.
constexpr const char* kOfPmix[] = {"PMIX_NAMESPACE", "PMIX_RANK", "PMIX_VERSION", "PRTE_LAUNCHED"};

}  // namespace

std::optional<std::string> rank_from_launcher() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (const char* rank = std::getenv(name)) return rank;
  }
  return std::nullopt;
}

bool launched_on_one_host() {
  const char* ranks = std::getenv("PMI_SIZE");
  const char* here = std::getenv("MPI_LOCALNRANKS");  // Hydra's
  return ranks != nullptr && here != nullptr && std::string_view(ranks) == here;
}

void check_launcher_is_understood(std::string_view mpi_version) {
  const bool without_pmix =
      mpi_version.starts_with("MPICH") && mpi_version.find("pmix") == std::string_view::npos;
  if (!without_pmix || is_set("PMI_SIZE") || is_set("PMI_PORT")) return;
  std::vector<std::string_view> names;
  std::ranges::copy_if(kOfPmix, std::back_inserter(names), is_set);
  if (names.empty()) return;
  check_others_were_found(1);
  throw BackendError(Status::backend_error(fmt::format(
      "init: a launcher that speaks PMIx has started this process ({}), and the MPI library here is an MPICH "
      "without PMIx. Set RUEDA_BOOTSTRAP=pmix, or use ruedarun, or srun --mpi=pmi2; for a process that shall "
      "be alone, unset {}.",
      names.front(), fmt::join(names, ", "))));
}

void check_others_were_found(int size) {
  if (size > 1) return;
  for (const Announcement& each : kAnnouncements) {
    const char* announced = std::getenv(each.variable);
    if (announced == nullptr || (each.its_own != nullptr && std::getenv(each.its_own) == nullptr)) continue;
    if (std::atoi(announced) <= 1) return;
    throw BackendError(Status::backend_error(
        fmt::format("init: {} has started {} processes ({}), and this one has found no other. {}; for "
                    "processes that shall "
                    "each be alone, unset {}.",
                    each.launcher, announced, each.variable, each.remedy, each.variable)));
  }
}

}  // namespace rueda
