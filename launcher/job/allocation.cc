// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "launcher/cli/options.h"
#include "launcher/cli/small_file.h"

namespace rueda {
namespace {

using Names = std::vector<std::string>;

// "a[1-2,4],b": commas in brackets do not separate.
Names from_node_list(const Allocation& allocation) {
  Names names(1);
  bool in_brackets = false;
  for (const char c : allocation.value) {
    if (c == '[' || c == ']') in_brackets = c == '[';
    if (c == ',' && !in_brackets) {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  std::erase(names, "");
  return names;
}

// "a 2 b 4": hosts, and how many ranks each takes.
Names from_pairs(const Allocation& allocation) {
  std::istringstream words(allocation.value);
  Names names;
  std::string ranks;
  for (std::string name; words >> name; words >> ranks) names.push_back(name);
  return names;
}

// A line for each host, or for each rank, which begins with the host.
Names from_file(const Allocation& allocation) {
  std::istringstream lines(read_small_file(allocation.variable, allocation.value));
  Names names;
  for (std::string line; std::getline(lines, line);) {
    std::string name;
    if (std::istringstream(line) >> name) names.push_back(name);
  }
  return names;
}

// One that Hydra knows. Each variable of `needs` has to be there; "A|B": one of them.
struct Manager {
  const char* name;
  std::array<const char*, 3> needs;  // the first names the hosts
  Names (*read)(const Allocation& allocation);
  const char* starter;
};
// In Hydra's order.
constexpr std::array kManagers{
    Manager{"Slurm",
            {"SLURM_JOB_NODELIST|SLURM_NODELIST", "SLURM_JOB_NUM_NODES|SLURM_NNODES", "SLURM_TASKS_PER_NODE"},
            from_node_list,
            "srun"},
    Manager{"LoadLeveler", {"LOADL_HOSTFILE", "MP_CHILD", ""}, from_file, "poe"},
    Manager{"LSF", {"LSB_MCPU_HOSTS", "LSF_BINDIR", ""}, from_pairs, "blaunch"},
    Manager{"Grid Engine", {"PE_HOSTFILE", "SGE_ROOT", "ARC"}, from_file, "qrsh"},
    Manager{"PBS", {"PBS_NODEFILE", "", ""}, from_file, "ssh"},
    Manager{"Cobalt", {"COBALT_NODEFILE", "", ""}, from_file, "ssh"},
};

// Which of "A|B" is set; empty when none is.
std::string set_one(const Variables& variable, std::string_view names) {
  std::istringstream list{std::string(names)};
  for (std::string name; std::getline(list, name, '|');)
    if (variable(name.c_str()) != nullptr) return name;
  return "";
}

bool is_there(const Variables& variable, const Manager& manager) {
  return std::ranges::all_of(manager.needs, [&](const std::string_view names) {
    return names.empty() || !set_one(variable, names).empty();
  });
}

std::string starter_of(const Variables& variable, const Manager& manager) {
  const std::string_view starter = manager.starter;
  if (starter == "blaunch") return fmt::format("{}/blaunch", variable("LSF_BINDIR"));
  if (starter == "qrsh") return fmt::format("{}/bin/{}/qrsh", variable("SGE_ROOT"), variable("ARC"));
  return std::string(starter);
}

}  // namespace

std::optional<Allocation> find_allocation(const Variables& variable) {
  const auto* found =
      std::ranges::find_if(kManagers, [&](const Manager& manager) { return is_there(variable, manager); });
  if (found == kManagers.end()) return std::nullopt;
  const std::string name = set_one(variable, found->needs.front());
  return Allocation{.manager = found->name,
                    .variable = name,
                    .value = variable(name.c_str()),
                    .starter = starter_of(variable, *found),
                    .read = found->read};
}

std::vector<std::string> hosts_of(const Allocation& allocation) {
  try {
    Names names;
    for (const std::string& name : allocation.read(allocation))
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    return names;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format(
        "{}, which is to name the hosts of this job; say where to start ranks: -H localhost for this machine",
        error.what()));
  }
}

}  // namespace rueda
