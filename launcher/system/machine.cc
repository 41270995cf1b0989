// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/machine.h"

#include <sched.h>

#include <sstream>
#include <string_view>

#include "launcher/system/descriptor.h"

namespace rueda {

// "MemTotal:  65 kB" lines.
MachineMemory machine_memory(const std::string& root) {
  MachineMemory memory;
  std::istringstream lines(text_of_file(root + "/proc/meminfo"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kilobytes = 0;
    if (!(words >> name >> kilobytes)) continue;
    if (name == "MemTotal:") memory.installed = kilobytes << 10;
    if (name == "MemAvailable:") memory.available = kilobytes << 10;
  }
  return memory;
}

CgroupLimits own_limits(const std::string& root) {
  return cgroup_limits(text_of_file(root + "/proc/self/cgroup"), root + "/sys/fs/cgroup");
}

std::set<int> usable_processors() {
  std::set<int> processors;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int number = 0; number < CPU_SETSIZE; ++number)
    if (CPU_ISSET(number, &set)) processors.insert(number);
  return processors;
}

}  // namespace rueda
