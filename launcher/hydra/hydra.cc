// SPDX-License-Identifier: Apache-2.0
#include "launcher/hydra/hydra.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>

#include "launcher/cli/options.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr const char* kBuiltMpiexec = RUEDA_BUILT_MPIEXEC;

}  // namespace

std::string find_mpiexec() {
  const char* chosen = std::getenv("RUEDA_MPIEXEC");
  std::string path = chosen != nullptr ? chosen : kBuiltMpiexec;
  if (path.empty())
    throw UsageError(
        "--launcher hydra: Rueda was built without an mpiexec; set RUEDA_MPIEXEC to that of MPICH, or leave "
        "the "
        "flag out");
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
        "this is the launcher of Open MPI: leave out --launcher hydra, or start the program itself by it, " +
        path + " -np N";
  if (about.find("HYDRA") == std::string::npos)
    throw UsageError(fmt::format("'{}' is not Hydra, the mpiexec of MPICH ('{}'); {}", path,
                                 about.substr(0, about.find('\n')), remedy));
  return path;
}

std::vector<std::string> mpiexec_command(const std::string& mpiexec, const std::vector<std::string>& hosts,
                                         const std::string& card, const std::vector<std::string>& more,
                                         const std::vector<std::string>& agent) {
  std::vector<std::string> command{mpiexec, "-disable-auto-cleanup",     "-rmk", "user", "-ppn", "1",
                                   "-np",   std::to_string(hosts.size())};
  if (!card.empty()) command.insert(command.end(), {"-iface", card});
  command.insert(command.end(), {"-hosts", fmt::format("{}", fmt::join(hosts, ","))});
  command.insert(command.end(), more.begin(), more.end());
  command.insert(command.end(), agent.begin(), agent.end());
  return command;
}

}  // namespace rueda
