// SPDX-License-Identifier: Apache-2.0
// Whether this process is one of several.
#pragma once

#include <optional>
#include <string>

namespace rueda {

// The rank that a launcher left in the environment (PMI: Hydra, Slurm; PMIx; Open MPI); nothing without one.
std::optional<std::string> rank_from_launcher();

}  // namespace rueda
