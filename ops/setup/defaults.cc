// SPDX-License-Identifier: Apache-2.0
#include "ops/setup/defaults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>

#include "core/base/error.h"
#include "ops/hierarchy/hierarchy_components.h"
#include "ops/link/launcher_environment.h"
#include "ops/local/local_backend.h"
#include "ops/mpi/mpi_components.h"
#include "ops/setup/devices.h"
#include "ops/shm/shm_components.h"
#include "ops/tcp/tcp_components.h"

namespace rueda::ops {
namespace {

RuntimeComponents alone(const Config& config) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  RuntimeComponents components;
  components.config = config;
  components.host = host.data();
  return components;
}

}  // namespace

RuntimeComponents defaults(const Config& config, const std::vector<Rank>& ranks) {
  std::optional<RuntimeComponents> found = mpi_components(config, ranks);
  if (!found && !ranks.empty() && ranks != std::vector{0}) {
    refuse(fmt::format("init of the ranks [{}]: no more than rank 0 was started. Start several by ruedarun.",
                       fmt::join(ranks, ", ")));
  }
  RuntimeComponents components = found ? std::move(*found) : alone(config);
  if (ranks.empty()) check_others_were_found(components.size);
  if (components.size > 1) {
    add_tcp(components);
    add_hierarchy(components, add_shared_memory(components));
  }
  components.backends.insert(components.backends.begin(), std::make_unique<LocalBackend>());
  add_devices(components);
  return components;
}

}  // namespace rueda::ops
