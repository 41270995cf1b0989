// SPDX-License-Identifier: Apache-2.0
// ruedarun: starts the ranks of a job, or is the agent of a host.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/observe/timeline_merge.h"
#include "launcher/agent/agent_process.h"
#include "launcher/cli/build_info.h"
#include "launcher/cli/horovod_names.h"
#include "launcher/cli/options.h"
#include "launcher/cli/virtual_hosts.h"
#include "launcher/doctor/doctor.h"
#include "launcher/doctor/examined_host.h"
#include "launcher/page/dump_client.h"
#include "launcher/page/page_socket.h"
#include "launcher/page/status_client.h"
#include "launcher/report/report_command.h"
#include "launcher/start/host_discovery.h"
#include "launcher/start/launch_method.h"
#include "launcher/supervisor/supervisor.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// Wishes that have no effect, once for the job.
void tell_what_is_ignored(const LaunchOptions& options) {
  for (const std::string& note : options.notes) fmt::print(stderr, "ruedarun: {}\n", note);
  for (const std::string& line :
       ignored_variables([](const std::string& name) { return std::getenv(name.c_str()) != nullptr; }))
    fmt::print(stderr, "ruedarun: {}\n", line);
}

void check_working_folder() {
  std::error_code error;
  static_cast<void>(std::filesystem::current_path(error));
  if (error)
    throw UsageError(
        fmt::format("the working folder is not there any more ({}); change to one that is", error.message()));
}

using Words = std::vector<std::string>;

// "a:2,b:1".
std::string list_of(const std::vector<HostSlots>& hosts) {
  std::string list;
  for (const HostSlots& host : hosts)
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.name, host.slots);
  return list;
}

int supervise(LaunchOptions options, const Config& config) {
  const SignalState inherited = signal_state();
  Descriptor signals = catch_signals_of_job(inherited);  // from here on none of them ends ruedarun by itself
  tell_what_is_ignored(options);
  std::unique_ptr<HostDiscovery> discovery;
  if (!options.elastic.discovery_script.empty()) {
    discovery = std::make_unique<HostDiscovery>(options.elastic);
    int signal = 0;
    const auto hosts = wait_for_slots(*discovery, options.ranks, options.elastic.timeout, signals, signal);
    if (!hosts) return 128 + signal;
    options.hosts = list_of(*hosts);
  }
  LaunchMethod method = launch_method(options, surroundings());
  if (options.elastic.least > 0)
    options.ranks = std::clamp(slots_of(method.hosts), options.ranks, options.elastic.most);
  return Supervisor(options, std::move(method), config, std::move(signals), inherited, std::move(discovery))
      .run();
}

int launch(const LaunchOptions& options, const Words& arguments, bool on_virtual_host) {
  const Config config = config_from_environment();  // what is not legal is told once, not by every rank
  check_program(options.command.front());
  check_working_folder();
  if (options.virtual_hosts.count == 0) return supervise(options, config);
  if (!on_virtual_host) {
    hand_on_page_socket(options);
    move_to_virtual_hosts(options.virtual_hosts, arguments);
  }
  receive_page_socket();
  fmt::print(stderr, "{}", what_was_made(options.virtual_hosts));
  const int status = supervise(options, config);
  fmt::print(stderr, "{}", bytes_of_cards());
  return status;
}

int examine(const LaunchOptions& options, const Words& arguments, bool on_virtual_host) {
  const Config config = config_from_environment();
  check_working_folder();
  tell_what_is_ignored(options);
  if (options.virtual_hosts.count > 0 && !on_virtual_host)
    move_to_virtual_hosts(options.virtual_hosts, arguments);
  return examine_hosts(options, config);
}

int merge_timeline(const LaunchOptions& options) {
  throw_if_error(merge_timelines(options.merged_timeline, options.command));
  return 0;
}

int act(const Words& arguments, bool on_virtual_host) {
  const LaunchOptions options = parse_launch_options(arguments);
  export_choices(options);
  switch (options.action) {
    case LaunchOptions::Action::launch: return launch(options, arguments, on_virtual_host);
    case LaunchOptions::Action::help: fmt::print("{}", help_text()); return 0;
    case LaunchOptions::Action::version: fmt::print("{}", version_text()); return 0;
    case LaunchOptions::Action::print_config: fmt::print("{}", config_text(options)); return 0;
    case LaunchOptions::Action::check_build: fmt::print("{}", build_text()); return 0;
    case LaunchOptions::Action::merge_timeline: return merge_timeline(options);
    case LaunchOptions::Action::doctor: return examine(options, arguments, on_virtual_host);
    case LaunchOptions::Action::status: return show_status(options);
    case LaunchOptions::Action::report: return report_runs(options);
    case LaunchOptions::Action::stacks: return show_stacks(options);
    case LaunchOptions::Action::dump: return ask_for_dump(options);
  }
  return kFailed;
}

// ruedarun starts itself in other roles, as "ROLE -- WORDS...".
int run(const Words& arguments) {
  fill_standard_streams();
  const bool has_role = arguments.size() > 2 && arguments[1] == "--";
  const Words words(arguments.begin() + (has_role ? 2 : 0), arguments.end());
  if (has_role && arguments[0] == "--agent") run_agent(words);
  if (has_role && arguments[0] == kExaminedHost) return run_examined_host(words);
  if (has_role && arguments[0] == kOnVirtualHost) return act(words, true);
  return act(arguments, false);
}

}  // namespace
}  // namespace rueda

int main(int count, char** words) {
  try {
    const int status = rueda::run({words + 1, words + count});
    if (std::fflush(stdout) != 0)
      throw std::system_error(errno, std::generic_category(), "cannot write the output");
    return status;
  } catch (const rueda::UsageError& error) {
    fmt::print(stderr, "ruedarun: error: {}\n", error.what());
    return rueda::kUsage;
  } catch (const rueda::InvalidArgument& error) {
    fmt::print(stderr, "ruedarun: error: {}\n", error.what());
    return rueda::kUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ruedarun: error: {}\n", error.what());
    return rueda::kFailed;
  }
}
