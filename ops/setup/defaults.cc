// SPDX-License-Identifier: Apache-2.0
#include "ops/setup/defaults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "ops/bootstrap/address/agent_line.h"
#include "ops/bootstrap/address/pmi_connection.h"
#include "ops/bootstrap/bootstrap_components.h"
#include "ops/hierarchy/hierarchy_components.h"
#include "ops/link/launcher_environment.h"
#include "ops/local/local_backend.h"
#include "ops/mpi/mpi_components.h"
#include "ops/mpi/mpi_module.h"
#include "ops/pmix/pmix_store.h"
#include "ops/setup/devices.h"
#include "ops/shm/shm_components.h"
#include "ops/tcp/tcp_components.h"

namespace rueda::ops {
namespace {

RuntimeComponents alone(const Config& config, const std::vector<Rank>& ranks) {
  if (!ranks.empty() && ranks != std::vector{0}) {
    refuse(fmt::format("init of the ranks [{}]: no more than rank 0 was started. Start several by ruedarun.",
                       fmt::join(ranks, ", ")));
  }
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  RuntimeComponents components;
  components.config = config;
  components.host = host.data();
  return components;
}

RuntimeComponents transport_of(const Launch& launch, const Config& config, const std::vector<Rank>& ranks) {
  switch (launch.method) {
    case BootstrapMethod::alone: return alone(config, ranks);
    case BootstrapMethod::mpi: return mpi_components(config, ranks);
    default: return bootstrap_components(config, launch, ranks);
  }
}

// A rank may have started a launcher of its own, or a process without PMI_RANK that is to be alone: both have
// the rank's variables, but not its line.
const char* variable(const char* name) {
  const bool of_a_rank_above = std::string_view(name) == "RUEDA_AGENT_LINE" &&
                               !AgentLine::of_this_process() &&
                               (pmi_process() || std::getenv("PMI_RANK") == nullptr);
  return of_a_rank_above ? nullptr : std::getenv(name);
}

// A program that a process manager has started may begin MPI later, which then needs PMI for itself. Where
// there is no MPI, PMI and PMIx are free.
Launch chosen_launch(const Config& config) {
  const bool mpi_begun = mpi_has_begun();
  Launch launch = find_launch(config, &variable, mpi_begun);
  const bool left_to_mpi = launch.method == BootstrapMethod::mpi && config.bootstrap == "auto" &&
                           config.network != "mpi" && !mpi_begun;
  const bool by_pmi = pmi_process().has_value();
  if (!left_to_mpi || !(by_pmi || std::getenv("PMIX_NAMESPACE") != nullptr) || has_mpi_module())
    return launch;
  Config without_mpi = config;
  without_mpi.bootstrap = by_pmi ? "pmi" : "pmix";
  return find_launch(without_mpi, &variable, mpi_begun);
}

Launch launch_of(const Config& config) {
  Launch launch = chosen_launch(config);
  return launch.method == BootstrapMethod::pmix ? numbered_by_pmix(std::move(launch)) : launch;
}

}  // namespace

RuntimeComponents defaults(const Config& config, const std::vector<Rank>& ranks) {
  return components_for(launch_of(config), config, ranks);
}

RuntimeComponents components_for(const Launch& launch, const Config& config, const std::vector<Rank>& ranks) {
  RuntimeComponents components = transport_of(launch, config, ranks);
  if (ranks.empty() && config.bootstrap != "alone" && launch.method != BootstrapMethod::program)
    check_others_were_found(components.size);
  if (components.size > 1) {
    const bool by_mpi = launch.method == BootstrapMethod::mpi;
    add_tcp(components,
            {.one_host = by_mpi ? launched_on_one_host() : launch.one_host, .only_link = !by_mpi});
    add_hierarchy(components, add_shared_memory(components));
  }
  components.backends.insert(components.backends.begin(), std::make_unique<LocalBackend>());
  add_devices(components);
  return components;
}

}  // namespace rueda::ops
