// SPDX-License-Identifier: Apache-2.0
#include "core/engine/backend.h"

#include "core/base/error.h"

namespace rueda {

bool Backend::meet(const std::vector<std::string>&, const std::function<void()>&) { return false; }

std::uint8_t able_backend(const std::vector<std::unique_ptr<Backend>>& backends, Plan& plan, int place) {
  std::size_t found = backends.size();
  for (std::size_t i = 0; i < backends.size() && place >= 0; ++i) {
    if (!backends[i]->can_run(plan)) continue;
    found = i;
    --place;
  }
  RUEDA_ASSERT(found < backends.size());
  backends[found]->decide(plan);
  return static_cast<std::uint8_t>(found);
}

}  // namespace rueda
