// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/cgroup_limits.h"

#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace rueda {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNoMemoryLimit = std::int64_t{1} << 60;  // version 1 says a number as large as this

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

void take_less(std::int32_t& least, std::int64_t quota, std::int64_t period) {
  if (quota <= 0 || period <= 0) return;
  const auto millicores = static_cast<std::int32_t>(std::max<std::int64_t>(1, 1000 * quota / period));
  if (least == 0 || millicores < least) least = millicores;
}

void take_less_memory(CgroupLimits& limits, const fs::path& limit, const fs::path& used) {
  const std::vector<std::int64_t> most = numbers_in(limit), now = numbers_in(used);
  if (most.empty() || most[0] < 0 || most[0] >= kNoMemoryLimit) return;
  const auto bytes = static_cast<std::uint64_t>(most[0]);
  if (limits.memory != 0 && limits.memory <= bytes) return;
  limits.memory = bytes;
  limits.memory_used = now.empty() || now[0] < 0 ? 0 : static_cast<std::uint64_t>(now[0]);
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
        if (quota.size() == 2) take_less(limits.millicores, quota[0], quota[1]);
        take_less_memory(limits, folder / "memory.max", folder / "memory.current");
      }
      const auto quota = numbers_in(folder / "cpu.cfs_quota_us"),
                 period = numbers_in(folder / "cpu.cfs_period_us");
      if (has("cpu") && !quota.empty() && !period.empty()) take_less(limits.millicores, quota[0], period[0]);
      if (has("memory"))
        take_less_memory(limits, folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes");
    });
  }
  return limits;
}

}  // namespace rueda
