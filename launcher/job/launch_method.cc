// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/launch_method.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "launcher/system/processes.h"

namespace rueda {
namespace {

using By = LaunchMethod::By;

// "node3" is "node3.cluster".
bool same_host(std::string_view a, std::string_view b) {
  const auto begins = [](std::string_view longer, std::string_view shorter) {
    return longer.starts_with(shorter) && longer.size() > shorter.size() && longer[shorter.size()] == '.';
  };
  return a == b || begins(a, b) || begins(b, a);
}

bool is_this_machine(const std::string& host, const Surroundings& around) {
  const char* node = around.variable("SLURMD_NODENAME");  // a container may have another name
  return host == "localhost" || host == "127.0.0.1" || same_host(host, around.host) ||
         (node != nullptr && same_host(host, node));
}

bool all_are_this_machine(const std::vector<std::string>& hosts, const Surroundings& around) {
  return std::ranges::all_of(hosts, [&](const std::string& host) { return is_this_machine(host, around); });
}

// "a:2,b" without the numbers.
std::vector<std::string> names_of(const std::string& hosts) {
  std::vector<std::string> names;
  std::istringstream list(hosts);
  for (std::string host; std::getline(list, host, ',');) names.push_back(host.substr(0, host.rfind(':')));
  return names;
}

bool user_has_chosen(const LaunchOptions& options, const Surroundings& around) {
  constexpr std::array kVariables{"HYDRA_LAUNCHER",       "HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXEC",
                                  "HYDRA_BOOTSTRAP_EXEC", "HYDRA_RMK",       "HYDRA_HOST_FILE"};
  constexpr std::array<std::string_view, 9> kWords{"launcher",       "launcher-exec", "bootstrap",
                                                   "bootstrap-exec", "rmk",           "f",
                                                   "hosts",          "hostfile",      "machinefile"};
  const auto is_such_a_word = [&](const std::string& word) {
    const std::size_t name = word.find_first_not_of('-');
    return word.starts_with('-') && name != std::string::npos &&
           std::ranges::find(kWords, std::string_view(word).substr(name)) != kWords.end();
  };
  return std::ranges::any_of(kVariables,
                             [&](const char* name) { return around.variable(name) != nullptr; }) ||
         std::ranges::any_of(options.mpiexec_words, is_such_a_word);
}

LaunchMethod on_this_machine() {
  return {.by = By::this_machine,
          .words = {"-rmk", "user", "-launcher", "fork"},
          .remedy = "look at what mpiexec says, all of it by --verbose"};
}

LaunchMethod by_ssh(const std::string& hosts, const Surroundings& around) {
  if (!around.is_there("ssh"))
    throw UsageError(
        fmt::format("there is no ssh in PATH to start ranks on the hosts '{}'; install it (openssh-client), "
                    "or start them on this machine alone: -H localhost",
                    hosts));
  return {.by = By::ssh,
          .other_hosts = true,
          .program = "ssh",
          .words = {"-rmk", "user", "-launcher", "ssh"},
          .remedy = fmt::format("see that `ssh HOST true` works without a question for each of '{}'", hosts)};
}

// `hosts`: with who names them.
LaunchMethod by_manager(const Allocation& allocation, const std::string& hosts, const Surroundings& around) {
  if (!around.is_there(allocation.starter))
    throw UsageError(fmt::format(
        "{} has given this job the hosts {}, and there is no {} here to start ranks on them; install it, or "
        "say where to start them: -H localhost for this machine, -H HOST:RANKS,... for what ssh reaches",
        allocation.manager, hosts, allocation.starter));
  return {.by = By::manager,
          .other_hosts = true,
          .program = allocation.starter,
          .remedy = fmt::format("see that {} starts processes on {}, or name other hosts by -H",
                                allocation.starter, hosts)};
}

LaunchMethod as_chosen(const LaunchOptions& options, const Surroundings& around) {
  const bool other_hosts = options.hosts.empty() ? find_allocation(around.variable).has_value() ||
                                                       !options.mpiexec_words.empty() ||
                                                       around.variable("HYDRA_HOST_FILE") != nullptr
                                                 : !all_are_this_machine(names_of(options.hosts), around);
  return {.by = By::user, .other_hosts = other_hosts, .remedy = "look at the hosts"};
}

}  // namespace

Surroundings surroundings() {
  return {.variable = [](const char* name) -> const char* { return std::getenv(name); },
          .host = host_name(),
          .is_there = is_program};
}

LaunchMethod launch_method(const LaunchOptions& options, const Surroundings& around) {
  if (options.virtual_hosts.count > 0 || user_has_chosen(options, around)) return as_chosen(options, around);
  const std::optional<Allocation> allocation = find_allocation(around.variable);
  if (!options.hosts.empty()) {
    if (all_are_this_machine(names_of(options.hosts), around)) return on_this_machine();
    if (!allocation || !around.is_there(allocation->starter)) return by_ssh(options.hosts, around);
    return by_manager(*allocation, fmt::format("'{}' (-H)", options.hosts), around);
  }
  const std::vector<std::string> hosts = allocation ? hosts_of(*allocation) : std::vector<std::string>();
  if (all_are_this_machine(hosts, around)) return on_this_machine();
  return by_manager(*allocation, fmt::format("'{}' ({})", fmt::join(hosts, ","), allocation->variable),
                    around);
}

void forget_outer_launcher() {
  constexpr std::array<std::string_view, 4> kBeginnings{"PMI_", "PMIX_", "HYDI_", "MPI_LOCAL"};
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (std::ranges::any_of(kBeginnings, [&](std::string_view begin) { return text.starts_with(begin); }))
      names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace rueda
