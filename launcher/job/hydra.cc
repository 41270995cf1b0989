// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/hydra.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "launcher/cli/virtual_hosts.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr const char* kBuiltMpiexec = RUEDA_BUILT_MPIEXEC;

}  // namespace

std::string find_mpiexec() {
  const char* chosen = std::getenv("RUEDA_MPIEXEC");
  std::string path = chosen != nullptr ? chosen : kBuiltMpiexec;
  std::string remedy =
      chosen != nullptr
          ? "set RUEDA_MPIEXEC to the mpiexec of MPICH, or unset it"
          : "Rueda was built with it: build again where MPICH is, or set RUEDA_MPIEXEC to its mpiexec";
  if (::access(path.c_str(), F_OK) != 0)
    throw UsageError(fmt::format("no mpiexec at '{}'; {}", path, remedy));
  if (::access(path.c_str(), X_OK) != 0)
    throw UsageError(fmt::format("'{}' is not executable; {}", path, remedy));
  std::string about = output_of({path, "--version"});
  if (about.find("OpenRTE") != std::string::npos || about.find("Open MPI") != std::string::npos)
    remedy =
        "ruedarun does not start ranks of Open MPI: start the program itself by this, " + path + " -np N";
  if (about.find("HYDRA") == std::string::npos)
    throw UsageError(fmt::format("'{}' is not Hydra, the mpiexec of MPICH ('{}'); {}", path,
                                 about.substr(0, about.find('\n')), remedy));
  return path;
}

std::vector<std::string> mpiexec_command(const std::string& mpiexec, const LaunchOptions& options,
                                         const std::string& label, const std::vector<std::string>& way) {
  // Without its own clean-up: the agents know more, and others are often about to say why the job ends.
  std::vector<std::string> command{
      mpiexec, "-disable-auto-cleanup", "-np", std::to_string(options.ranks), "-prepend-pattern", label};
  if (!options.network_interface.empty())
    command.insert(command.end(), {"-iface", options.network_interface});
  if (options.virtual_hosts.count > 0)
    command.insert(command.end(), {"-launcher", "ssh", "-launcher-exec", hosts_program()});
  command.insert(command.end(), way.begin(), way.end());
  command.insert(command.end(), options.mpiexec_words.begin(), options.mpiexec_words.end());
  if (!options.hosts.empty()) command.insert(command.end(), {"-hosts", options.hosts});
  command.insert(command.end(), {std::filesystem::read_symlink("/proc/self/exe").string(), "--agent", "--"});
  std::ranges::transform(options.command, std::back_inserter(command), disguised);
  return command;
}

std::string disguised(const std::string& word) {
  return word.empty() || word.front() == ':' || word.front() == '\\' ? "\\" + word : word;
}

std::string undisguised(const std::string& word) { return word.starts_with('\\') ? word.substr(1) : word; }

}  // namespace rueda
