// SPDX-License-Identifier: Apache-2.0
// Broadcast along a binomial tree, pipelined by chunk: a rank passes on what has come so far. Cost: ceil(log2
// n) steps of latency; the root sends the tensor ceil(log2 n) times.
#pragma once

#include <memory>

#include "core/engine/submissions/entry.h"
#include "ops/algorithms/passes/algorithm.h"

namespace rueda {

std::unique_ptr<Algorithm> tree_broadcast(const Route& route, Rank root, Entry& entry);

}  // namespace rueda
