// SPDX-License-Identifier: Apache-2.0
// Allreduce of one tensor of which each rank sends only the largest elements.
#pragma once

#include <memory>

#include "core/engine/submissions/entry.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/compression/error_feedback.h"

namespace rueda {

// A sparse_sum of the whole tensor. `feedback` keeps this rank's residual and outlives the Work; a Work that
// fails leaves it as it was. Cost: see sparse_sum.h; a copy of a tensor that is not contiguous.
std::unique_ptr<Algorithm> topk_allreduce(const Route& route, const Plan& plan, Entry& entry,
                                          ErrorFeedback& feedback);

}  // namespace rueda
