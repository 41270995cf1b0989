// SPDX-License-Identifier: Apache-2.0
// The same as start_rueda, by MPI.
#include <mpi.h>

#include "bench/peers/start_times.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  float value = 1;
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (value != static_cast<float>(size)) return 1;
  rueda::bench::tell_time("first");
  MPI_Finalize();
  rueda::bench::tell_time("end");
  return 0;
}
