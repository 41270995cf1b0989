// SPDX-License-Identifier: Apache-2.0
// All-gather by a ring, of inputs whose first dimension may differ by rank. First the numbers of rows go
// round, then the output is allocated, then the rows go round. Cost: 2(n-1) steps; every rank sends (n-1)/n
// of the output.
#pragma once

#include <memory>

#include "core/engine/submissions/entry.h"
#include "ops/algorithms/passes/algorithm.h"

namespace rueda {

std::unique_ptr<Algorithm> ring_allgather(const Route& route, Entry& entry);

}  // namespace rueda
