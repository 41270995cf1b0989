// SPDX-License-Identifier: Apache-2.0
// The operations of a job in words.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/dump/job_recordings.h"

namespace rueda {

// The occasion of a dump, and what ruedarun knows. A plain value.
struct DumpFacts {
  std::string command;
  std::int32_t process = 0;  // of ruedarun
  std::string reason;        // "ranks wait for others"; empty: somebody has asked for it
  double unix_seconds = 0;
  std::map<Rank, std::string> ranks;  // all of the job: "rank 2 (process 17 on node3) was killed by ..."
};

// What is wrong: operations in which ranks differ, those that wait for ranks, those that move data, and ranks
// of which nothing is known. At most some KiB. Pure.
std::string dump_summary(const DumpFacts& facts, const std::vector<JobGroup>& groups,
                         const std::map<Rank, RankRecording>& recordings);

// The summary, and behind it each rank with its last operations. Pure.
std::string dump_text(const DumpFacts& facts, const std::vector<JobGroup>& groups,
                      const std::map<Rank, RankRecording>& recordings);

}  // namespace rueda
