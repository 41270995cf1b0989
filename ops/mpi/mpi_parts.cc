// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_parts.h"

#include "ops/launched.h"
#include "ops/link_backend.h"
#include "ops/mpi/mpi_link.h"
#include "ops/mpi/mpi_transport.h"

namespace rueda {

std::optional<Parts> mpi_parts(const Config& config) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0 && !rank_from_launcher()) return std::nullopt;
  MpiRuntime& mpi = MpiRuntime::instance(config.start_timeout);
  Parts parts;
  parts.config = config;
  parts.rank = mpi.rank();
  parts.size = mpi.size();
  parts.host = mpi.host();
  if (parts.size > 1) {
    parts.transport = std::make_unique<MpiTransport>(mpi);
    if (mpi.agent()) {
      parts.how_it_ended = [&mpi](Rank lost) {  // the agent begins with "rank 2 (process 17 on node3) "
        const std::string words = mpi.agent().words_of(lost);
        const std::size_t end_of_place = words.find(") ");
        return end_of_place == std::string::npos ? words : words.substr(end_of_place + 2);
      };
    }
    parts.backends.push_back(
        std::make_unique<LinkBackend>("mpi", std::make_unique<MpiLink>(mpi), parts.rank, false));
  }
  return parts;
}

}  // namespace rueda
