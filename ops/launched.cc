// SPDX-License-Identifier: Apache-2.0
#include "ops/launched.h"

#include <cstdlib>

namespace rueda {

std::optional<std::string> rank_from_launcher() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (const char* rank = std::getenv(name)) return rank;
  }
  return std::nullopt;
}

}  // namespace rueda
