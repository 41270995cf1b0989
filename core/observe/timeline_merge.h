// SPDX-License-Identifier: Apache-2.0
// One timeline out of those of several ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "rueda/status.h"
#include "rueda/types.h"

namespace rueda {

// The contents of the first line of a rank's timeline. A plain value.
struct TimelineHeader {
  std::int64_t epoch_us = 0;  // when the job began: the same in all its timelines
  std::uint64_t session = 0;  // which timeline of the job
  Rank rank = 0;

  bool same_job(const TimelineHeader& other) const {
    return epoch_us == other.epoch_us && session == other.session;
  }
};

// Nothing when there is no such file, or it is no timeline of one rank.
std::optional<TimelineHeader> read_timeline_header(const std::string& path);
// Whether the rank has told everything (false too when it was killed).
bool timeline_ended(const std::string& path);

// Writes all events of `parts` into `path`, which may be one of them. Their clocks agree already. Reads line
// by line, and leaves out lines that were cut when a rank was killed. The other parts stay. Errors name the
// file: one that is no timeline of one rank, timelines of different jobs, two of one rank.
Status merge_timelines(const std::string& path, std::span<const std::string> parts);

}  // namespace rueda
