// SPDX-License-Identifier: Apache-2.0
// Float32 sum in place, through the whole stack (submit, negotiate, reduce, wait), against MPI_Allreduce on
// the same processes, in alternation:
//   build/bin/ruedarun --no-prefix -np 2 build/bin/allreduce_ranks_bench
// Every rank writes its buffer before each call, as a backward pass does: data that never moves between
// caches makes numbers lie. A sample is the slowest rank's time for one call; the median of the samples
// counts.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "core/rueda.h"
#include "ops/init.h"

namespace {

double seconds_of(std::vector<float>& values, const std::function<void()>& call) {
  std::ranges::fill(values, 1.0f);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  call();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

double median(std::vector<double> samples) {
  std::ranges::nth_element(samples, samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2));
  return samples[samples.size() / 2];
}

}  // namespace

int main() {
  rueda::init();
  int started = 0;
  MPI_Initialized(&started);
  if (started == 0) {
    std::fprintf(stderr, "error: start it on several ranks: ruedarun -np 2 allreduce_ranks_bench\n");
    return 2;
  }
  if (rueda::rank() == 0) std::printf("%12s %12s %12s %8s\n", "bytes", "Rueda us", "MPI us", "ratio");
  for (long bytes : {4L, 4096L, 65536L, 1L << 20, 16L << 20, 64L << 20}) {
    std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
    const rueda::TensorView tensor = rueda::view(values);
    std::vector<double> ours, theirs;
    const int samples = bytes > (1L << 20) ? 15 : 101;
    for (int i = 0; i < samples; ++i) {
      ours.push_back(seconds_of(
          values, [&] { rueda::allreduce_async("bench", tensor, tensor, {rueda::ReduceOp::sum}).wait(); }));
      theirs.push_back(seconds_of(values, [&] {
        MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      }));
    }
    if (rueda::rank() == 0) {
      std::printf("%12ld %12.1f %12.1f %8.2f\n", bytes, 1e6 * median(ours), 1e6 * median(theirs),
                  median(theirs) / median(ours));
    }
  }
  rueda::shutdown();
  return 0;
}
