// SPDX-License-Identifier: Apache-2.0
// Whether this process is one of several.
#pragma once

#include <optional>
#include <string>

namespace rueda {

// The rank that a launcher left in the environment (PMI: Hydra, Slurm; PMIx; Open MPI); nothing without one.
std::optional<std::string> rank_from_launcher();

// Whether a launcher says that all its ranks are on this host.
bool launched_on_one_host();

// Throws BackendError where a launcher says that it has started several ranks, and this process has found no
// other: each would be a job by itself.
void check_others_were_found(int size);

}  // namespace rueda
