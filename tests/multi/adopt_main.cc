// SPDX-License-Identifier: Apache-2.0
// A program with an MPI of its own, which finalises MPI and never calls rueda::shutdown():
//   adopt single|multiple   begins MPI itself, at that level of threads; Rueda adopts it
//   adopt begun             lets Rueda begin MPI
//   adopt late              after an init() that timed out, since rank 1 comes 2 s late
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "rueda/rueda.h"
#include "tests/support/process_watchdog.h"

namespace {

void add_up() {
  std::vector<float> values(10, 1.0f);
  rueda::allreduce_async("values", rueda::view(values), rueda::view(values), {rueda::ReduceOp::sum}).wait();
  float one = 1.0f, sum = 0.0f;
  MPI_Allreduce(&one, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);  // the program's own goes on working
  std::printf("rueda %g, mpi %g\n", values[0], sum);
}

bool init_fails() {
  try {
    rueda::init();
    return false;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return true;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(60));
  int level = 0, rank = 0;
  if (mode != "begun") {
    MPI_Init_thread(&argc, &argv, mode == "single" ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  }
  if (mode == "late" && rank == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
  const bool failed = init_fails();
  if (!failed) add_up();
  MPI_Finalize();
  const bool refused = init_fails();
  return failed || !refused ? 1 : 0;
}
