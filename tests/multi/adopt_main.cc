// SPDX-License-Identifier: Apache-2.0
// A program with an MPI of its own, which Rueda adopts: adopt single|multiple. It never calls
// rueda::shutdown().
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "core/rueda.h"
#include "ops/init.h"
#include "tests/support/process_watchdog.h"

int main(int argc, char** argv) {
  const bool multiple = argc > 1 && std::strcmp(argv[1], "multiple") == 0;
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(60));
  int level = 0;
  MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  int status = 0;
  try {
    rueda::init();
    std::vector<float> values(10, 1.0f);
    rueda::allreduce_async("values", rueda::view(values), rueda::view(values), {rueda::ReduceOp::sum}).wait();
    float one = 1.0f, sum = 0.0f;
    MPI_Allreduce(&one, &sum, 1, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);  // the program's own MPI goes on working
    std::printf("rueda %g, mpi %g\n", values[0], sum);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
