// SPDX-License-Identifier: Apache-2.0
// MPI on demand. librueda links no MPI: librueda_mpi does, and is loaded for a job over MPI only.
#pragma once

#include <string>
#include <vector>

#include "core/engine/runtime_components.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: the functions of librueda_mpi. A table inside that library, which is never unloaded.
struct MpiModule {
  const char* version = "";  // of Rueda; the functions are those of this version
  RuntimeComponents (*components)(const Config& config, const std::vector<Rank>& ranks) = nullptr;
  // The argument points to an MPI_Comm.
  RankSet (*ranks_of)(const void* communicator) = nullptr;
  std::vector<std::vector<Rank>> (*ranks_of_split)(const void* part) = nullptr;
};

// Its only symbol that others look up, a function of the type MpiModuleFunction.
inline constexpr const char* kMpiModuleSymbol = "rueda_mpi_module";
using MpiModuleFunction = const MpiModule* (*)();

// The library beside librueda, loaded by the first call. Throws BackendError if it cannot be loaded.
const MpiModule& mpi_module();

// Whether it can be loaded. If so, it is.
bool has_mpi_module();

// The library in this file. Throws BackendError if there is none, or one of another version.
const MpiModule& load_mpi_module(const std::string& path);

}  // namespace rueda
