// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <sstream>
#include <string_view>

#include "launcher/cli/options.h"
#include "launcher/cli/small_file.h"

namespace rueda {
namespace {

using Hosts = std::vector<HostSlots>;
using Names = std::vector<std::string>;

constexpr std::size_t kMostHosts = 1 << 20;

// At the commas outside of brackets.
Names split_list(std::string_view list) {
  Names names(1);
  bool in_brackets = false;
  for (const char c : list) {
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

int number_from(std::string_view text, int otherwise) {
  int number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "01", "02", "7" of "01-02,7".
Names numbers_of(const std::string& ranges) {
  Names numbers;
  std::istringstream list(ranges);
  for (std::string range; std::getline(list, range, ',');) {
    const std::size_t dash = range.find('-');
    const std::string first = range.substr(0, dash);
    const int begin = number_from(first, 0);
    const int end = dash == std::string::npos ? begin : number_from(range.substr(dash + 1), begin);
    for (int number = begin; number <= end && numbers.size() < kMostHosts; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, first.size()));
  }
  return numbers;
}

// All names of "a[1-2][3-4]".
Names expand_name(const std::string& name) {
  const std::size_t open = name.find('['), close = name.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return {name};
  Names names;
  const Names rest = expand_name(name.substr(close + 1));
  for (const std::string& number : numbers_of(name.substr(open + 1, close - open - 1)))
    for (const std::string& end : rest)
      if (names.size() < kMostHosts) names.push_back(name.substr(0, open) + number + end);
  return names;
}

Hosts from_node_list(const Allocation& allocation) {
  Hosts hosts;
  const std::vector<int> tasks = expand_tasks(allocation.tasks);
  for (const std::string& name : expand_host_list(allocation.value))
    hosts.push_back({name, hosts.size() < tasks.size() ? tasks[hosts.size()] : 1});
  return hosts;
}

// "a 2 b 4": hosts, and how many ranks each takes.
Hosts from_pairs(const Allocation& allocation) {
  std::istringstream words(allocation.value);
  Hosts hosts;
  for (std::string name, ranks; words >> name >> ranks;) hosts.push_back({name, number_from(ranks, 1)});
  return hosts;
}

// A line for each host, which begins with it; a number behind it tells how many ranks it takes. A host may
// have a line for each rank.
Hosts from_file(const Allocation& allocation) {
  std::istringstream lines(read_small_file(allocation.variable, allocation.value));
  Hosts hosts;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, ranks;
    if (!(words >> name)) continue;
    const int slots = words >> ranks ? number_from(ranks, 1) : 1;
    const auto known = std::ranges::find(hosts, name, &HostSlots::name);
    if (known == hosts.end()) {
      hosts.push_back({name, slots});
    } else {
      known->slots += slots;
    }
  }
  return hosts;
}

// A resource manager. Each variable of `needs` has to be there; "A|B": one of them.
struct Manager {
  const char* name;
  std::array<const char*, 3> needs;  // the first names the hosts
  Hosts (*read)(const Allocation& allocation);
  const char* starter;  // empty: ruedarun knows none
};
constexpr std::array kManagers{
    Manager{"Slurm",
            {"SLURM_JOB_NODELIST|SLURM_NODELIST", "SLURM_JOB_NUM_NODES|SLURM_NNODES", "SLURM_TASKS_PER_NODE"},
            from_node_list,
            "srun"},
    Manager{"LoadLeveler", {"LOADL_HOSTFILE", "MP_CHILD", ""}, from_file, ""},
    Manager{"LSF", {"LSB_MCPU_HOSTS", "LSF_BINDIR", ""}, from_pairs, "blaunch"},
    Manager{"Grid Engine", {"PE_HOSTFILE", "SGE_ROOT", "ARC"}, from_file, "qrsh"},
    Manager{"PBS", {"PBS_NODEFILE", "", ""}, from_file, "ssh"},
    Manager{"Cobalt", {"COBALT_NODEFILE", "", ""}, from_file, "ssh"},
};

// Which of "A|B" is set; empty when none is.
std::string set_one(const Environment& variable, std::string_view names) {
  std::istringstream list{std::string(names)};
  for (std::string name; std::getline(list, name, '|');)
    if (variable(name.c_str()) != nullptr) return name;
  return "";
}

bool is_there(const Environment& variable, const Manager& manager) {
  return std::ranges::all_of(manager.needs, [&](const std::string_view names) {
    return names.empty() || !set_one(variable, names).empty();
  });
}

// Both programs are called as ssh is: PROGRAM HOST COMMAND.
Names starter_of(const Environment& variable, const Manager& manager) {
  const std::string_view starter = manager.starter;
  if (starter == "blaunch") return {fmt::format("{}/blaunch", variable("LSF_BINDIR"))};
  if (starter == "qrsh")
    return {fmt::format("{}/bin/{}/qrsh", variable("SGE_ROOT"), variable("ARC")), "-inherit", "-V"};
  if (starter == "ssh") return {"ssh", "-x"};
  return starter.empty() ? Names() : Names{std::string(starter)};
}

}  // namespace

std::optional<Allocation> find_allocation(const Environment& variable) {
  const auto* found =
      std::ranges::find_if(kManagers, [&](const Manager& manager) { return is_there(variable, manager); });
  if (found == kManagers.end()) return std::nullopt;
  const std::string name = set_one(variable, found->needs.front());
  const char* tasks = variable("SLURM_TASKS_PER_NODE");
  return Allocation{.manager = found->name,
                    .variable = name,
                    .value = variable(name.c_str()),
                    .tasks = tasks == nullptr ? "" : tasks,
                    .words = starter_of(variable, *found),
                    .read = found->read};
}

std::vector<HostSlots> hosts_of(const Allocation& allocation) {
  try {
    return allocation.read(allocation);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format(
        "{}, which is to name the hosts of this job; say where to start ranks: -H localhost for this machine",
        error.what()));
  }
}

std::vector<std::string> expand_host_list(const std::string& list) {
  std::vector<std::string> hosts;
  for (const std::string& name : split_list(list))
    std::ranges::copy(expand_name(name), std::back_inserter(hosts));
  return hosts;
}

std::vector<int> expand_tasks(const std::string& tasks) {
  std::vector<int> counts;
  for (const std::string& entry : split_list(tasks)) {
    const std::size_t times = entry.find("(x");
    const int repeat = times == std::string::npos ? 1 : number_from(entry.substr(times + 2), 1);
    for (int i = 0; i < repeat && counts.size() < kMostHosts; ++i) counts.push_back(number_from(entry, 1));
  }
  return counts;
}

}  // namespace rueda
