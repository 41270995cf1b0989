// SPDX-License-Identifier: Apache-2.0
// All-to-all by pairs: at distance d every rank sends to rank + d and receives from rank - d. First the
// numbers of rows are exchanged, then the output is allocated, then the rows. Cost: every row moves once.
#pragma once

#include <memory>

#include "core/engine/submissions/entry.h"
#include "ops/algorithms/passes/algorithm.h"

namespace rueda {

std::unique_ptr<Algorithm> pairwise_alltoall(const Route& route, Entry& entry);

}  // namespace rueda
