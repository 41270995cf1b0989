// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/memory/free_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace rueda {
namespace {

std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // not there, or "max"
}

// The number after `key` in a file of lines "key number".
std::optional<std::int64_t> number_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t number = 0;
    if (words >> name >> number && name == key) return number;
  }
  return std::nullopt;
}

// The free bytes of one group: its limit, less the used bytes that cannot be given back. Nothing if the group
// leaves at least `least`. Most groups have no limit, and the system takes longer for their statistics than
// for all the rest.
std::optional<std::int64_t> left_in_group(const std::string& limit, const std::string& usage,
                                          const std::string& statistics, const std::string& prefix,
                                          std::optional<std::int64_t> least) {
  const std::optional<std::int64_t> most = number_in(limit), used = most ? number_in(usage) : std::nullopt;
  if (!most || !used || (least && *most - *used >= *least)) return std::nullopt;
  const std::int64_t cached = number_of(statistics, prefix + "inactive_file").value_or(0) +
                              number_of(statistics, prefix + "active_file").value_or(0);
  return std::max<std::int64_t>(0, *most - std::max<std::int64_t>(0, *used - cached));
}

void lower(std::optional<std::int64_t>& least, std::optional<std::int64_t> other) {
  if (other && (!least || *other < *least)) least = other;
}

}  // namespace

std::optional<std::int64_t> free_memory(const std::string& root) {
  std::optional<std::int64_t> least = number_of(root + "/proc/meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line;
       std::getline(groups, line);) {  // "0::/path" (version 2), "7:memory:/path" (version 1)
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    if (!kind.empty() && kind != "memory") continue;
    // A limit further up counts too.
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      const std::string group = root + "/sys/fs/cgroup" + (kind.empty() ? "" : "/memory") + path;
      lower(least, kind.empty()
                       ? left_in_group(group + "/memory.max", group + "/memory.current",
                                       group + "/memory.stat", "", least)
                       : left_in_group(group + "/memory.limit_in_bytes", group + "/memory.usage_in_bytes",
                                       group + "/memory.stat", "total_", least));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace rueda
