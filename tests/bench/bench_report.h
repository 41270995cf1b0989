// SPDX-License-Identifier: Apache-2.0
// The numbers of rueda-bench, for people and for programs. Rank 0 calls these.
#pragma once

#include <vector>

#include "tests/bench/measure.h"

namespace rueda::bench {

void print(const Experiment& experiment, const std::vector<Measured>& all, const Placement& placement);
// Throws std::runtime_error when the file cannot be written.
void write_json(const Experiment& experiment, const std::vector<Measured>& all, const Placement& placement);

}  // namespace rueda::bench
