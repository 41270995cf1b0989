// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/over_mpi.h"

#include "ops/algorithms/link_backend.h"
#include "ops/mpi/mpi_link.h"
#include "ops/mpi/mpi_transport.h"

namespace rueda {

RuntimeComponents rank_over_mpi(const Config& config, const std::vector<Rank>& ranks) {
  MpiRuntime& mpi = MpiRuntime::instance(config.start_timeout);
  RuntimeComponents components;
  components.config = config;
  MpiGroup& group = mpi.group(ranks, config.start_timeout);
  components.rank = group.rank();
  components.size = group.size();
  components.started_as = group.world_ranks();
  components.host = mpi.host();
  if (components.size > 1) {
    components.transport = std::make_unique<MpiTransport>(mpi, group);
    if (mpi.agent()) {
      components.how_it_ended = [&mpi, &group](Rank lost) {
        return mpi.agent().how_it_ended(group.in_world(lost));
      };
    }
    components.backends.push_back(std::make_unique<LinkBackend>(
        "mpi", std::make_unique<MpiLink>(group), components.rank, false, Memory(), [] { return true; },
        AlgorithmSelector("mpi", config)));
  }
  return components;
}

}  // namespace rueda
