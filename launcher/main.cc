// SPDX-License-Identifier: Apache-2.0
// ruedarun: starts the ranks of a job, or is the agent beside one of them.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/observe/timeline_merge.h"
#include "launcher/about.h"
#include "launcher/agent.h"
#include "launcher/descriptor.h"
#include "launcher/environment.h"
#include "launcher/horovod_names.h"
#include "launcher/hydra.h"
#include "launcher/options.h"
#include "launcher/supervisor.h"

namespace rueda {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// What the user has asked for in vain, once for the job.
void tell_what_is_ignored(const LaunchOptions& options) {
  for (const std::string& note : options.notes) fmt::print(stderr, "ruedarun: {}\n", note);
  for (const std::string& line :
       ignored_variables([](const std::string& name) { return std::getenv(name.c_str()) != nullptr; }))
    fmt::print(stderr, "ruedarun: {}\n", line);
}

int launch(const LaunchOptions& options) {
  const Config config = config_from_environment();  // what is not legal is told once, not by every rank
  check_program(options.command.front());
  tell_what_is_ignored(options);
  return Supervisor(options, find_mpiexec(), config.start_timeout).run();
}

int merge_timeline(const LaunchOptions& options) {
  throw_if_error(merge_timelines(options.merged_timeline, options.command));
  return 0;
}

int act(const LaunchOptions& options) {
  export_choices(options);
  switch (options.action) {
    case LaunchOptions::Action::launch: return launch(options);
    case LaunchOptions::Action::help: fmt::print("{}", help_text()); return 0;
    case LaunchOptions::Action::version: fmt::print("{}", version_text()); return 0;
    case LaunchOptions::Action::print_config: fmt::print("{}", config_text(options)); return 0;
    case LaunchOptions::Action::check_build: fmt::print("{}", build_text()); return 0;
    case LaunchOptions::Action::merge_timeline: return merge_timeline(options);
  }
  return kFailed;
}

int run(const std::vector<std::string>& arguments) {
  fill_standard_streams();
  bool agent = arguments.size() > 2 && arguments[0] == "--agent" && arguments[1] == "--";
  if (agent) return run_agent({arguments.begin() + 2, arguments.end()});
  return act(parse_launch_options(arguments));
}

}  // namespace
}  // namespace rueda

int main(int count, char** words) {
  try {
    return rueda::run({words + 1, words + count});
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
