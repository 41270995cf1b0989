// SPDX-License-Identifier: Apache-2.0
// By which program Hydra is to start the ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/job/allocation.h"

namespace rueda {

// Purpose: how Hydra is told to start the ranks, and what helps when it does not. A plain value.
struct LaunchMethod {
  enum class By {
    this_machine,  // no other program: mpiexec forks
    ssh,
    manager,  // the resource manager's own program
    user,     // has chosen: HYDRA_LAUNCHER, --mpi-args...
  };
  By by = By::this_machine;
  bool other_hosts = false;        // ranks may start on other machines
  std::string program;             // "ssh", "srun"; empty for this machine
  std::vector<std::string> words;  // for mpiexec
  std::string remedy;              // when ranks do not start
};

// What the choice depends on beside the command line.
struct Surroundings {
  Variables variable;
  std::string host;                                          // this machine's name
  std::function<bool(const std::string& program)> is_there;  // a path, or a name in PATH
};
Surroundings surroundings();  // of this process

// Hydra follows the variables of a resource manager also where its program is missing (in a container), and
// waits then. So it is told what to do: ranks of this machine need no other program; others need the
// manager's, or ssh. Throws UsageError when that is not there.
LaunchMethod launch_method(const LaunchOptions& options, const Surroundings& around);

// Takes what an outer mpiexec or srun says of its own processes out of the environment.
void forget_outer_launcher();

}  // namespace rueda
