// SPDX-License-Identifier: Apache-2.0
// Barrier by dissemination: in round i every rank tells rank + 2^i and hears from rank - 2^i. ceil(log2 n)
// rounds.
#pragma once

#include <memory>

#include "ops/algorithms/passes/algorithm.h"

namespace rueda {

std::unique_ptr<Algorithm> barrier(const Route& route);

}  // namespace rueda
