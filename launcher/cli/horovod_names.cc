// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/horovod_names.h"

#include <fmt/format.h>

#include <array>

namespace rueda {
namespace {

struct Name {
  std::string_view name;  // without HOROVOD_
  std::string_view why;
};

constexpr std::string_view kRoute = "the route is chosen from measured times, not by hand";
constexpr std::string_view kTuner = "Rueda's tuner compares measured steps and has no such number";
constexpr std::string_view kGloo = "there is no Gloo in Rueda";
constexpr std::string_view kSpark = "Rueda does not run inside Spark";
constexpr std::string_view kXla = "there is no XLA in Rueda";
constexpr std::string_view kGpuCopies = "tensors on devices are always packed by kernels, many at a time";
constexpr std::string_view kGpuWaits = "the host never waits for a device";
constexpr std::string_view kMpi = "ranks talk by MPI";
constexpr std::string_view kPlacement = "ruedarun places the ranks";
constexpr std::string_view kElastic = "ruedarun has the flags --min-np and --elastic-timeout";

// The runtime variables of Horovod that are no alias of a setting.
constexpr std::array kNames{
    Name{"HIERARCHICAL_ALLGATHER", kRoute},
    Name{"TORUS_ALLREDUCE", kRoute},
    Name{"AUTOTUNE_GAUSSIAN_PROCESS_NOISE", kTuner},
    Name{"CPU_OPERATIONS", kMpi},
    Name{"CONTROLLER", kMpi},
    Name{"MPI_THREADS_DISABLE", "Rueda's background thread needs MPI_THREAD_MULTIPLE"},
    Name{"THREAD_AFFINITY", "ruedarun binds each rank with all its threads"},
    Name{"BATCH_D2D_MEMCOPIES", kGpuCopies},
    Name{"DISABLE_GROUP_FUSION", "this version has no such setting"},
    Name{"ENABLE_ASYNC_COMPLETION", kGpuWaits},
    Name{"DYNAMIC_PROCESS_SETS", "process sets can always be added and removed"},
    Name{"ELASTIC", kElastic},
    Name{"ELASTIC_TIMEOUT", kElastic},
    Name{"ADASUM_MPI_CHUNK_SIZE", "messages of Adasum are as large as all others"},
    Name{"GLOO_IFACE", kGloo},
    Name{"GLOO_TIMEOUT_SECONDS", kGloo},
    Name{"GLOO_RENDEZVOUS_ADDR", kGloo},
    Name{"GLOO_RENDEZVOUS_PORT", kGloo},
    Name{"RANK", kPlacement},
    Name{"SIZE", kPlacement},
    Name{"LOCAL_RANK", kPlacement},
    Name{"LOCAL_SIZE", kPlacement},
    Name{"CROSS_RANK", kPlacement},
    Name{"CROSS_SIZE", kPlacement},
    Name{"HOSTNAME", kPlacement},
    Name{"SECRET_KEY", "ruedarun makes a token of its own for each job"},
    Name{"CCL_CACHE", "there is no oneCCL in Rueda"},
    Name{"DISABLE_NVTX_RANGES", "there are no NVTX ranges"},
    Name{"ENABLE_XLA_OPS", kXla},
    Name{"SPARK_START_TIMEOUT", kSpark},
    Name{"SPARK_PYTHONPATH", kSpark},
    Name{"SPARK_WORK_DIR", kSpark},
    Name{"SPARK_USE_LOCAL_RANK_GPU_INDEX", kSpark},
};

}  // namespace

std::vector<std::string> ignored_variables(const std::function<bool(const std::string&)>& is_set) {
  std::vector<std::string> lines;
  for (const Name& row : kNames) {
    const std::string name = fmt::format("HOROVOD_{}", row.name);
    if (is_set(name)) lines.push_back(fmt::format("{} is ignored: {}", name, row.why));
  }
  return lines;
}

}  // namespace rueda
