// SPDX-License-Identifier: Apache-2.0
// The command line of ruedarun.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace rueda {

// The user asked for something that cannot be; what() is one line that says what and the remedy. Exit
// status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Purpose: what the user asked for. A plain value.
struct LaunchOptions {
  enum class Action { launch, help, version, print_config, check_build };

  Action action = Action::launch;
  int ranks = 0;
  std::string hosts;          // as Hydra's -hosts wants them; empty: this machine
  std::string output_folder;  // empty: no files
  bool prefix = true;
  bool prefix_time = false;
  bool verbose = false;
  std::vector<std::string> command;  // PROGRAM ARGS...
};

inline constexpr int kMostRanks = 4096;

// `arguments` without the program's own name. Everything from the first word that is no option on is the
// command.
LaunchOptions parse_launch_options(std::span<const std::string> arguments);

std::string help_text();

// Throws UsageError unless `program` can be started: a path, or a name that PATH finds.
void check_program(const std::string& program);

}  // namespace rueda
