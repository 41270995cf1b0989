// SPDX-License-Identifier: Apache-2.0
// Times of all hosts on one scale: nanoseconds since the job's start.
#pragma once

#include <cstdint>
#include <map>

namespace rueda {

// Purpose: from a host's monotonic clock to the clock of rank 0's host, on which ranks are compared, and from
// there to the time of the job. Messages take a while, so the fastest one of a host tells best how its clock
// stands to the job's. Ranks know the difference to rank 0's clock better than that. Pure. Owned by the main
// thread of the supervisor.
class FeedClock {
 public:
  // Rank 0 is there now; at first it is on host 0.
  void put_rank_0_on(int host) { host_of_rank_0_ = host; }
  int host_of_rank_0() const { return host_of_rank_0_; }
  // A message that was made at `host_ns` has come at `job_ns`.
  void note(int host, std::int64_t host_ns, std::int64_t job_ns);
  // On rank 0's clock. `offset_ns`: to that clock; 0 where it is not known. Later messages change nothing of
  // times with an offset, nor of those on rank 0's host.
  std::int64_t common_time(int host, std::int64_t host_ns, std::int64_t offset_ns) const;
  // The time of the job, of a time on rank 0's clock.
  std::int64_t job_time(std::int64_t common_ns) const;
  // And back.
  std::int64_t common_time(std::int64_t job_ns) const;

 private:
  std::int64_t shift_of(int host) const;

  int host_of_rank_0_ = 0;
  std::map<int, std::int64_t> shifts_;  // by host: job's time less that of the host
};

}  // namespace rueda
