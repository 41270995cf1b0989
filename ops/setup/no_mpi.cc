// SPDX-License-Identifier: Apache-2.0
// Stands in for ops/mpi in a build without it.
#include "core/base/error.h"
#include "ops/mpi/mpi_components.h"

namespace rueda {

bool mpi_has_begun() { return false; }

RuntimeComponents mpi_components(const Config&, const std::vector<Rank>&) {
  throw BackendError(Status::backend_error(
      "This process was started by MPI's launcher, and Rueda was built without MPI. Build it with "
      "-DRUEDA_MPI=ON, or set RUEDA_BOOTSTRAP=pmi."));
}

}  // namespace rueda
