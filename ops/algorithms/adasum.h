// SPDX-License-Identifier: Apache-2.0
// Adasum by messages.
#pragma once

#include <memory>
#include <span>

#include "core/engine/operations/entry.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/buffers/fusion_buffer.h"

namespace rueda {

// ops/collectives/adasum.h over a Link: every rank sends every other its parts of the tensors, as
// accumulators; the products of each level go up a tree and their sums down; every rank sends every other its
// share of the result. Cost of n elements on p ranks: 2 n (p-1)/p sent and received by each, in 2 (p-1)
// messages or more; 2 log2 p small messages one after the other for each of log2 p levels (one more where p
// is no power of two); memory of 2 n accumulators.
std::unique_ptr<Algorithm> adasum(const Route& route, const Plan& plan, std::span<Entry> entries,
                                  FusionBuffer& buffers);

}  // namespace rueda
