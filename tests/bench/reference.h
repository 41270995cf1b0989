// SPDX-License-Identifier: Apache-2.0
// What Rueda is compared with, on the same processes. Without MPI there is nothing to compare with.
#pragma once

#include <span>

namespace rueda::bench {

// Throws std::runtime_error where it cannot be used: a build without MPI, a job of one rank.
void check_reference();
// Seconds of one MPI_Allreduce of `values` in place, float32 sum, after a barrier. Called by every rank.
double reference_seconds(std::span<float> values);

}  // namespace rueda::bench
