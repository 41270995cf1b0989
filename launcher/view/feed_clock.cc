// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/feed_clock.h"

#include <algorithm>

namespace rueda {

void FeedClock::note(int host, std::int64_t host_ns, std::int64_t job_ns) {
  const std::int64_t shift = job_ns - host_ns;
  const auto [found, fresh] = shifts_.try_emplace(host, shift);
  if (!fresh) found->second = std::min(found->second, shift);
}

std::int64_t FeedClock::job_time(int host, std::int64_t host_ns, std::int64_t offset_ns) const {
  const auto first = shifts_.find(0);
  if (offset_ns != 0 && first != shifts_.end()) return host_ns + offset_ns + first->second;
  const auto own = shifts_.find(host);
  return own == shifts_.end() ? host_ns : host_ns + own->second;
}

}  // namespace rueda
