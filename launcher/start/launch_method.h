// SPDX-License-Identifier: Apache-2.0
// By which program the agents of a job are started.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/job/placement.h"
#include "launcher/start/allocation.h"

namespace rueda {

// Purpose: the hosts of a job, how their agents are started, and the remedy when they are not. A plain value.
struct LaunchMethod {
  enum class By {
    fork,          // this machine alone
    remote_shell,  // a program for each host, as ssh: PROGRAM WORDS... HOST COMMAND
    srun,          // one program for all hosts, in an allocation of Slurm
    hydra,         // one program for all hosts: mpiexec
  };
  By by = By::fork;
  std::vector<HostSlots> hosts{};    // empty: this machine
  std::vector<std::string> words{};  // the program that starts agents, with its own words
  std::string remedy{};              // when ranks do not start
};

// The choice depends on these beside the command line.
struct Surroundings {
  Environment variable;
  std::string host;                                          // this machine's name
  std::function<bool(const std::string& program)> is_there;  // a path, or a name in PATH
};
Surroundings surroundings();  // of this process

// Hosts come from -H or --hostfile, from the host file of an operator's variables, or from a resource
// manager. Throws UsageError when the program that would start ranks there is missing.
LaunchMethod launch_method(const LaunchOptions& options, const Surroundings& around);

bool is_this_machine(const std::string& host, const Surroundings& around);

}  // namespace rueda
