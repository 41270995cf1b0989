// SPDX-License-Identifier: Apache-2.0
// The memory and processors of this machine.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "launcher/system/cgroup_limits.h"

namespace rueda {

// In bytes; 0: not known. A plain value.
struct MachineMemory {
  std::uint64_t installed = 0;
  std::uint64_t available = 0;  // without swapping
};

// `root`: of the files, empty but in tests.
MachineMemory machine_memory(const std::string& root = "");
// Those of this process's control group.
CgroupLimits own_limits(const std::string& root = "");
// The numbers of those that this process may use; none where the system does not say.
std::set<int> usable_processors();

}  // namespace rueda
