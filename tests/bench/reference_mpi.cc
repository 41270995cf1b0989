// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <chrono>
#include <stdexcept>

#include "tests/bench/reference.h"

namespace rueda::bench {

void check_reference() {
  int started = 0;
  MPI_Initialized(&started);
  if (started == 0) throw std::runtime_error("--reference mpi needs ranks: ruedarun -np 2 rueda-bench ...");
}

double reference_seconds(std::span<float> values) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace rueda::bench
