// SPDX-License-Identifier: Apache-2.0
// The page to read first: every rank brings numbers, every rank gets their average.
//
//   build/bin/ruedarun -np 2 build/bin/allreduce
#include <cstdio>
#include <exception>
#include <vector>

#include <rueda/rueda.h>

int main() {
  try {
    // 1. Find the other ranks. Started by ruedarun there are several; started alone there is one.
    rueda::init();
    const int rank = rueda::rank(), size = rueda::size();

    // 2. Name the tensor; the name is the same on all ranks. The call returns at once; the reduction runs
    //    in the background, while this thread does something else. Here the result replaces the input.
    std::vector<float> gradient(1'000'000, static_cast<float>(rank));
    rueda::Handle reduced = rueda::allreduce_async("gradient", rueda::view(gradient), rueda::view(gradient));

    // 3. More operations may be in flight at once, in any order: ready tensors travel together.
    std::vector<double> loss{0.5 + rank};
    rueda::Handle worst =
        rueda::allreduce_async("loss", rueda::view(loss), rueda::view(loss), {rueda::ReduceOp::max});

    // 4. Wait for the result before using it. If another rank asked for something else under this name, or
    //    was lost, wait() throws, with the same words on every rank.
    reduced.wait();
    worst.wait();
    std::printf("rank %d of %d: average %.2f, highest loss %.1f\n", rank, size, gradient[0], loss[0]);

    // 5. Leave together.
    rueda::shutdown();
  } catch (const rueda::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
