// SPDX-License-Identifier: Apache-2.0
// The operations of a job, each with what its ranks have recorded of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/dump/recordings_message.h"
#include "rueda/rank_set.h"

namespace rueda {

inline constexpr std::size_t kMostRanksOfJob = 1 << 16;

// One operation of a group. A plain value.
struct JobOperation {
  std::uint64_t plan = 0;  // 0: no rank has heard that all have submitted it
  std::string name;
  std::map<Rank, RecordedOperation> on;  // by rank of the job
  // Members without it:
  RankSet absent;     // of which there is no recording
  RankSet forgotten;  // that may have it, or had it too long ago: nothing tells
  RankSet joined;     // that had no more data
  RankSet missing;    // that have not submitted it
};

// Ranks that work together: those of a Runtime, or a process set of it. A plain value.
struct JobGroup {
  std::string name;                      // "all ranks", "process set 2", "group 0"
  std::vector<Rank> ranks;               // of the job, in the group's order
  std::vector<JobOperation> operations;  // by Plan; then those without one, by their submission
};

// Puts together what belongs together: by Plan and name, or by name where a rank knows no Plan. Times of
// operations are nanoseconds since 1970 in the result, 0 where there is none. A recording that tells of more
// than `most` ranks is cut: it may say anything. Pure.
std::vector<JobGroup> job_groups(const std::map<Rank, RankRecording>& recordings,
                                 std::size_t most = kMostRanksOfJob);

RankSet set_of(const std::vector<Rank>& ranks);

}  // namespace rueda
