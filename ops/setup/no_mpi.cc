// SPDX-License-Identifier: Apache-2.0
// Stands in for ops/mpi in a build without it.
#include "core/base/error.h"
#include "ops/link/launcher_environment.h"
#include "ops/mpi/mpi_components.h"

namespace rueda {

std::optional<RuntimeComponents> mpi_components(const Config&, const std::vector<Rank>&) {
  if (!rank_from_launcher()) return std::nullopt;
  throw BackendError(
      Status::backend_error("This process was started as one of several, but Rueda was built without MPI. "
                            "Build it with -DRUEDA_MPI=ON."));
}

}  // namespace rueda
