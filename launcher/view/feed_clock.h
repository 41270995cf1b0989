// SPDX-License-Identifier: Apache-2.0
// Times of all hosts on one scale: nanoseconds since the job's start.
#pragma once

#include <cstdint>
#include <map>

namespace rueda {

// Purpose: from a host's monotonic clock to the time of the job. Messages take a while, so the fastest one of
// a host tells best how its clock stands to the job's. Ranks know the difference to rank 0's clock better
// than that. Pure. Owned by the main thread of the supervisor.
class FeedClock {
 public:
  // A message that was made at `host_ns` has come at `job_ns`.
  void note(int host, std::int64_t host_ns, std::int64_t job_ns);
  // `offset_ns`: to the clock of rank 0, which is on host 0; 0 where it is not known. The host has been
  // noted.
  std::int64_t job_time(int host, std::int64_t host_ns, std::int64_t offset_ns) const;

 private:
  std::map<int, std::int64_t> shifts_;  // by host: job's time less that of the host
};

}  // namespace rueda
