// SPDX-License-Identifier: Apache-2.0
// Whether this process is one of several.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rueda {

// The rank that a launcher left in the environment (PMI: Hydra, Slurm; PMIx; Open MPI); nothing without one.
std::optional<std::string> rank_from_launcher();

// Whether a launcher says that all its ranks are on this host.
bool launched_on_one_host();

// Throws BackendError where the launcher speaks PMIx alone, and the MPI library is an MPICH without it, as
// that of PyPI is: MPI_Init would end the process. `mpi_version`: what MPI_Get_library_version says. MPICH's
// has the words of its configure, --with-pmix or --with-pmi=pmix among them where it speaks PMIx; other
// libraries are not judged.
void check_launcher_is_understood(std::string_view mpi_version);

// Throws BackendError where a launcher says that it has started several ranks, and this process has found no
// other: each would be a job by itself.
void check_others_were_found(int size);

}  // namespace rueda
