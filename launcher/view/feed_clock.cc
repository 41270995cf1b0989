// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/feed_clock.h"

#include <algorithm>

namespace rueda {

void FeedClock::note(int host, std::int64_t host_ns, std::int64_t job_ns) {
  const std::int64_t shift = job_ns - host_ns;
  const auto [found, fresh] = shifts_.try_emplace(host, shift);
  if (!fresh) found->second = std::min(found->second, shift);
}

std::int64_t FeedClock::shift_of(int host) const {
  const auto found = shifts_.find(host);
  return found == shifts_.end() ? 0 : found->second;
}

std::int64_t FeedClock::common_time(int host, std::int64_t host_ns, std::int64_t offset_ns) const {
  if (offset_ns != 0 || host == host_of_rank_0_) return host_ns + offset_ns;
  return host_ns + shift_of(host) - shift_of(host_of_rank_0_);
}

std::int64_t FeedClock::job_time(std::int64_t common_ns) const {
  return common_ns + shift_of(host_of_rank_0_);
}

std::int64_t FeedClock::common_time(std::int64_t job_ns) const { return job_ns - shift_of(host_of_rank_0_); }

}  // namespace rueda
