// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/cgroup_limits.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace rueda {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 says a number as large as this

// The first numbers of a file; "max" is -1. Fewer where there are fewer.
std::vector<std::int64_t> numbers_in(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::int64_t> numbers;
  for (std::string word; numbers.size() < 2 && file >> word;) {
    std::int64_t number = -1;
    if (word != "max" && !(std::istringstream(word) >> number)) break;
    numbers.push_back(number);
  }
  return numbers;
}

// Returns true if this limit is the least so far.
bool take_less(std::int32_t& least, std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return false;
  const auto millicores = static_cast<std::int32_t>(std::max<std::int64_t>(1, 1000 * quota / period));
  if (least != 0 && millicores >= least) return false;
  least = millicores;
  return true;
}

// The number behind a word of memory.stat; 0 without it.
std::uint64_t in_statistics(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  for (std::string word; file >> word;)
    if (word == name && file >> number) return number;
  return 0;
}

// Takes a limit and its use where they leave less than those known.
void take_less_left(std::uint64_t& limit, std::uint64_t& used, const fs::path& most, const fs::path& now,
                    std::uint64_t dropped = 0) {
  const std::vector<std::int64_t> limits = numbers_in(most), uses = numbers_in(now);
  if (limits.empty() || limits[0] < 0 || limits[0] >= kNoLimit) return;
  const auto new_limit = static_cast<std::uint64_t>(limits[0]);
  std::uint64_t new_used = uses.empty() || uses[0] < 0 ? 0 : static_cast<std::uint64_t>(uses[0]);
  new_used -= std::min(new_used, dropped);
  const auto left = [](std::uint64_t all, std::uint64_t part) { return all - std::min(all, part); };
  if (limit != 0 && left(limit, used) <= left(new_limit, new_used)) return;
  limit = new_limit, used = new_used;
}

// Each folder from `root` down to the group. A container may see its own group as `root`.
void for_each_group(const fs::path& root, const std::string& group,
                    const std::function<void(const fs::path&)>& look) {
  fs::path folder = root;
  look(folder);
  for (const fs::path& name : fs::path(group).relative_path()) {
    folder /= name;
    look(folder);
  }
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& membership, const fs::path& root) {
  CgroupLimits limits;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const auto has = [&](std::string_view name) {
      return ("," + controllers + ",").find("," + std::string(name) + ",") != std::string::npos;
    };
    for_each_group(root / controllers, group, [&](const fs::path& folder) {
      if (controllers.empty()) {
        const std::vector<std::int64_t> quota = numbers_in(folder / "cpu.max");
        if (quota.size() == 2 && take_less(limits.millicores, quota[0], quota[1]))
          limits.cpu_microseconds = in_statistics(folder / "cpu.stat", "usage_usec");
        take_less_left(limits.memory, limits.memory_used, folder / "memory.max", folder / "memory.current",
                       in_statistics(folder / "memory.stat", "inactive_file"));
      }
      const auto quota = numbers_in(folder / "cpu.cfs_quota_us"),
                 period = numbers_in(folder / "cpu.cfs_period_us");
      if (has("cpu") && !quota.empty() && !period.empty() &&
          take_less(limits.millicores, quota[0], period[0])) {
        const auto nanoseconds = numbers_in(folder / "cpuacct.usage");
        limits.cpu_microseconds =
            nanoseconds.empty() || nanoseconds[0] < 0 ? 0 : static_cast<std::uint64_t>(nanoseconds[0]) / 1000;
      }
      if (has("memory"))
        take_less_left(limits.memory, limits.memory_used, folder / "memory.limit_in_bytes",
                       folder / "memory.usage_in_bytes",
                       in_statistics(folder / "memory.stat", "total_inactive_file"));
      if (controllers.empty() || has("pids"))
        take_less_left(limits.processes, limits.processes_used, folder / "pids.max", folder / "pids.current");
    });
  }
  return limits;
}

}  // namespace rueda
