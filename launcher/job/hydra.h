// SPDX-License-Identifier: Apache-2.0
// Hydra's mpiexec: which one, and how it is called.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"

namespace rueda {

// The mpiexec that Rueda was built with, or RUEDA_MPIEXEC. Throws UsageError when it is missing or not Hydra.
std::string find_mpiexec();

// The command that starts an agent for each rank. Hydra puts `label` before each piece of output (%r: the
// rank). `way`: words that say by which program it starts ranks.
std::vector<std::string> mpiexec_command(const std::string& mpiexec, const LaunchOptions& options,
                                         const std::string& label, const std::vector<std::string>& way = {});

// Hydra takes ":" for the start of another program and drops empty words: words are disguised on the way to
// the agent.
std::string disguised(const std::string& word);
std::string undisguised(const std::string& word);

}  // namespace rueda
