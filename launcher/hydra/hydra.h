// SPDX-License-Identifier: Apache-2.0
// Hydra, the mpiexec of MPICH, as a way to start agents: `--launcher hydra`.
#pragma once

#include <string>
#include <vector>

namespace rueda {

// The mpiexec that Rueda was built with, or RUEDA_MPIEXEC. Throws UsageError when it is missing or not Hydra.
std::string find_mpiexec();

// The command that starts `agent` once on each host. `more`: words of the user for mpiexec. `card`: the
// network card to use; empty: any.
std::vector<std::string> mpiexec_command(const std::string& mpiexec, const std::vector<std::string>& hosts,
                                         const std::string& card, const std::vector<std::string>& more,
                                         const std::vector<std::string>& agent);

}  // namespace rueda
