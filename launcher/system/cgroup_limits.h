// SPDX-License-Identifier: Apache-2.0
// What a control group allows its processes: versions 1 and 2 of cgroups.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace rueda {

// Purpose: limits of a control group and of all groups around it. A plain value; 0: no limit.
struct CgroupLimits {
  std::int32_t millicores = 0;
  std::uint64_t memory = 0;       // bytes
  std::uint64_t memory_used = 0;  // of the group with the least left, without files that can be dropped
  std::uint64_t processes = 0;    // and threads
  std::uint64_t processes_used = 0;
  std::uint64_t cpu_microseconds = 0;  // used so far by the group that has the millicores; 0: not known
  bool operator==(const CgroupLimits&) const = default;
};

// `membership`: the text of /proc/self/cgroup. `root`: where cgroups are mounted.
CgroupLimits cgroup_limits(const std::string& membership, const std::filesystem::path& root);

}  // namespace rueda
