// SPDX-License-Identifier: Apache-2.0
#include "ops/setup/defaults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>

#include "core/base/error.h"
#include "ops/hierarchy/hierarchy_parts.h"
#include "ops/link/launcher_environment.h"
#include "ops/local/local_backend.h"
#include "ops/mpi/mpi_parts.h"
#include "ops/setup/devices.h"
#include "ops/shm/shm_parts.h"
#include "ops/tcp/tcp_parts.h"

namespace rueda::ops {
namespace {

RuntimeComponents alone(const Config& config) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  RuntimeComponents parts;
  parts.config = config;
  parts.host = host.data();
  return parts;
}

}  // namespace

RuntimeComponents defaults(const Config& config, const std::vector<Rank>& ranks) {
  std::optional<RuntimeComponents> found = mpi_parts(config, ranks);
  if (!found && !ranks.empty() && ranks != std::vector{0}) {
    refuse(fmt::format("init of the ranks [{}]: no more than rank 0 was started. Start several by ruedarun.",
                       fmt::join(ranks, ", ")));
  }
  RuntimeComponents parts = found ? std::move(*found) : alone(config);
  if (ranks.empty()) check_others_were_found(parts.size);
  if (parts.size > 1) {
    add_tcp(parts);
    add_hierarchy(parts, add_shared_memory(parts));
  }
  parts.backends.insert(parts.backends.begin(), std::make_unique<LocalBackend>());
  add_devices(parts);
  return parts;
}

}  // namespace rueda::ops
