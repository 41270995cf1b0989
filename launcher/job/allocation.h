// SPDX-License-Identifier: Apache-2.0
// The hosts that a resource manager has given to this job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rueda {

// A variable of the environment; null when it is not set.
using Variables = std::function<const char*(const char* name)>;

// Purpose: what the environment says of an allocation. A plain value.
struct Allocation {
  std::string manager;   // "Slurm"
  std::string variable;  // which names the hosts, or a file with them: "SLURM_JOB_NODELIST"
  std::string value;     // of that variable
  std::string starter;   // the program by which Hydra starts ranks on them: a path, or a name
  std::vector<std::string> (*read)(const Allocation& allocation) = nullptr;
};

// The allocation that Hydra finds in these variables: only where all that it wants are there.
std::optional<Allocation> find_allocation(const Variables& variable);

// Its hosts, each once; what Slurm writes with a bracket stays one name. Throws UsageError when the file with
// them cannot be read.
std::vector<std::string> hosts_of(const Allocation& allocation);

}  // namespace rueda
