// SPDX-License-Identifier: Apache-2.0
// The hosts that a resource manager has given to this job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/placement.h"

namespace rueda {

// A variable of the environment; null when it is not set.
using Environment = std::function<const char*(const char* name)>;

// Purpose: an allocation, as the environment tells of it. A plain value.
struct Allocation {
  std::string manager;             // "Slurm"
  std::string variable;            // which names the hosts, or a file with them: "SLURM_JOB_NODELIST"
  std::string value;               // of that variable
  std::string tasks;               // Slurm: "2(x3),1", how many ranks each host takes
  std::vector<std::string> words;  // the program that starts processes there; empty: ruedarun knows none
  std::vector<HostSlots> (*read)(const Allocation& allocation) = nullptr;
};

// The allocation of these variables: only where all that its manager sets are there.
std::optional<Allocation> find_allocation(const Environment& variable);

// Its hosts, each once, with the ranks that it takes. Throws UsageError when the file with them cannot be
// read.
std::vector<HostSlots> hosts_of(const Allocation& allocation);

// "a01", "a02", "b" of "a[01-02],b", as Slurm writes lists of hosts.
std::vector<std::string> expand_host_list(const std::string& list);

// 2, 2, 2, 1 of "2(x3),1".
std::vector<int> expand_tasks(const std::string& tasks);

}  // namespace rueda
