// SPDX-License-Identifier: Apache-2.0
// Whether this process is one of several.
#pragma once

namespace rueda {

// A launcher left its variables in the environment (PMI: Hydra, Slurm; PMIx; Open MPI).
bool started_by_launcher();

}  // namespace rueda
