// SPDX-License-Identifier: Apache-2.0
// Of a build without MPI.
#include <stdexcept>

#include "tests/bench/reference.h"

namespace rueda::bench {

void check_reference() {
  throw std::runtime_error(
      "--reference mpi: this program was built without MPI. Configure with RUEDA_MPI=ON.");
}

double reference_seconds(std::span<float>) {
  check_reference();
  return 0;
}

}  // namespace rueda::bench
