// SPDX-License-Identifier: Apache-2.0
#include "ops/launched.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace rueda {

bool started_by_launcher() {
  constexpr std::array kVariables{"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"};
  return std::ranges::any_of(kVariables, [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace rueda
