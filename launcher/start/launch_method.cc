// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/launch_method.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "launcher/cli/host_file.h"
#include "launcher/cli/virtual_hosts.h"
#include "launcher/hydra/hydra.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

using By = LaunchMethod::By;
using Words = std::vector<std::string>;

// "node3" is "node3.cluster".
bool same_host(std::string_view a, std::string_view b) {
  const auto begins = [](std::string_view longer, std::string_view shorter) {
    return longer.starts_with(shorter) && longer.size() > shorter.size() && longer[shorter.size()] == '.';
  };
  return a == b || begins(a, b) || begins(b, a);
}

bool all_are_this_machine(const std::vector<HostSlots>& hosts, const Surroundings& around) {
  return std::ranges::all_of(hosts,
                             [&](const HostSlots& host) { return is_this_machine(host.name, around); });
}

std::string in_words(const std::vector<HostSlots>& hosts) {
  Words names;
  for (const HostSlots& host : hosts) names.push_back(host.name);
  return fmt::format("'{}'", fmt::join(names, ","));
}

// The first of these variables that is set; null without one.
const char* first_set(const Surroundings& around, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = around.variable(name)) return value;
  return nullptr;
}

// As the MPI operator of Kubernetes leaves it for launchers.
std::vector<HostSlots> hosts_of_operator(const Surroundings& around) {
  const char* file =
      first_set(around, {"HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile"});
  return file == nullptr ? std::vector<HostSlots>() : host_slots_from(hosts_from_file(file));
}

// The command that a user or an operator has chosen in place of ssh; empty without one.
Words chosen_remote_shell(const LaunchOptions& options, const Surroundings& around) {
  if (!options.remote_shell.empty()) return options.remote_shell;
  const char* chosen =
      first_set(around, {"RUEDA_REMOTE_SHELL", "HYDRA_LAUNCHER_EXEC", "OMPI_MCA_plm_rsh_agent"});
  return chosen == nullptr ? Words() : words_of(chosen);
}

LaunchMethod by_remote_shell(Words words, std::vector<HostSlots> hosts, const LaunchOptions& options,
                             const Surroundings& around) {
  const std::string program = words.front();
  if (!all_are_this_machine(hosts, around) && !around.is_there(program))
    throw UsageError(
        fmt::format("there is no {} in PATH to start ranks on the hosts {}; install it{}, or start them on "
                    "this machine alone: -H localhost",
                    program, in_words(hosts), program == "ssh" ? " (openssh-client)" : ""));
  for (const char* variable : {"HYDRA_LAUNCHER_EXTRA_ARGS", "OMPI_MCA_plm_rsh_args"})
    if (const char* more = around.variable(variable))
      std::ranges::copy(words_of(more), std::back_inserter(words));
  std::ranges::copy(words_of(options.ssh_words), std::back_inserter(words));
  return {.by = By::remote_shell,
          .hosts = hosts,
          .words = std::move(words),
          .remedy = fmt::format("see that `{} HOST true` works without a question for each of {}", program,
                                in_words(hosts))};
}

LaunchMethod by_ssh(std::vector<HostSlots> hosts, const LaunchOptions& options, const Surroundings& around) {
  return by_remote_shell({"ssh", "-x"}, std::move(hosts), options, around);
}

// `source`: who names the hosts.
LaunchMethod by_manager(const Allocation& allocation, std::vector<HostSlots> hosts, const std::string& source,
                        const LaunchOptions& options, const Surroundings& around) {
  if (allocation.words.empty())
    throw UsageError(
        fmt::format("ruedarun does not start ranks by {} itself; say --launcher hydra", allocation.manager));
  const std::string& program = allocation.words.front();
  if (!around.is_there(program))
    throw UsageError(fmt::format(
        "{} has given this job the hosts {} ({}), and there is no {} here to start ranks on them; install "
        "it, "
        "or say where to start them: -H localhost for this machine, -H HOST:RANKS,... for what ssh reaches",
        allocation.manager, in_words(hosts), source, program));
  if (allocation.manager != "Slurm")
    return by_remote_shell(allocation.words, std::move(hosts), options, around);
  const std::string remedy = fmt::format("see that {} starts processes on {} ({}), or name other hosts by -H",
                                         program, in_words(hosts), source);
  return {.by = By::srun, .hosts = std::move(hosts), .words = allocation.words, .remedy = remedy};
}

LaunchMethod by_hydra(std::vector<HostSlots> hosts, const Surroundings& around) {
  if (hosts.empty()) hosts = {{around.host, 1}};
  return {.by = By::hydra,
          .hosts = std::move(hosts),
          .words = {find_mpiexec()},
          .remedy = "look at what mpiexec says, all of it by --verbose"};
}

LaunchMethod on_this_machine(std::vector<HostSlots> hosts) {
  return {.by = By::fork, .hosts = std::move(hosts), .remedy = "look at the messages above"};
}

LaunchMethod chosen_method(const LaunchOptions& options, const Surroundings& around) {
  std::vector<HostSlots> hosts = host_slots_from(options.hosts);
  if (options.virtual_hosts.count > 0)
    return {.by = By::remote_shell,
            .hosts = std::move(hosts),
            .words = {hosts_program()},
            .remedy = "look at the hosts"};
  if (hosts.empty()) hosts = hosts_of_operator(around);
  const std::optional<Allocation> allocation = find_allocation(around.variable);
  std::string source = "-H";
  if (hosts.empty() && allocation) {
    hosts = hosts_of(*allocation);
    source = allocation->variable;
  }
  if (options.launcher == LaunchOptions::Launcher::hydra) return by_hydra(std::move(hosts), around);
  const bool others_may_come = !options.elastic.discovery_script.empty();
  if (!others_may_come && all_are_this_machine(hosts, around)) return on_this_machine(std::move(hosts));
  const Words chosen = chosen_remote_shell(options, around);
  if (!chosen.empty()) return by_remote_shell(chosen, std::move(hosts), options, around);
  const bool by_user = allocation && source == "-H";
  if (!allocation || (by_user && (allocation->words.empty() || !around.is_there(allocation->words.front()))))
    return by_ssh(std::move(hosts), options, around);
  return by_manager(*allocation, std::move(hosts), source, options, around);
}

}  // namespace

bool is_this_machine(const std::string& host, const Surroundings& around) {
  const char* node = around.variable("SLURMD_NODENAME");  // a container may have another name
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || same_host(host, around.host) ||
         (node != nullptr && same_host(host, node));
}

Surroundings surroundings() {
  return {.variable = [](const char* name) -> const char* { return std::getenv(name); },
          .host = host_name(),
          .is_there = is_program};
}

LaunchMethod launch_method(const LaunchOptions& options, const Surroundings& around) {
  LaunchMethod method = chosen_method(options, around);
  // In an elastic job each name is a host of its own, as Horovod has it.
  if (options.elastic.least > 0) return method;
  // This machine has one agent, whatever names it is given.
  const auto is_here = [&](const HostSlots& host) { return is_this_machine(host.name, around); };
  const auto first = std::ranges::find_if(method.hosts, is_here);
  for (HostSlots& host : method.hosts)
    if (is_here(host)) host.name = first->name;
  return method;
}

}  // namespace rueda
