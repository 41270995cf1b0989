// SPDX-License-Identifier: Apache-2.0
#include "ops/defaults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>

#include "core/base/error.h"
#include "ops/devices.h"
#include "ops/hierarchy/hierarchy_parts.h"
#include "ops/launched.h"
#include "ops/local/local_backend.h"
#include "ops/mpi/mpi_parts.h"
#include "ops/shm/shm_parts.h"
#include "ops/tcp/tcp_parts.h"

namespace rueda::ops {
namespace {

Parts alone(const Config& config) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  Parts parts;
  parts.config = config;
  parts.host = host.data();
  return parts;
}

}  // namespace

Parts defaults(const Config& config, const std::vector<Rank>& ranks) {
  std::optional<Parts> found = mpi_parts(config, ranks);
  if (!found && !ranks.empty() && ranks != std::vector{0}) {
    refuse(fmt::format("init of the ranks [{}]: no more than rank 0 was started. Start several by ruedarun.",
                       fmt::join(ranks, ", ")));
  }
  Parts parts = found ? std::move(*found) : alone(config);
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
