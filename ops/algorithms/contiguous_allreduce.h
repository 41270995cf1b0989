// SPDX-License-Identifier: Apache-2.0
// Allreduce of one run of elements, in the order that is asked for.
#pragma once

#include <memory>
#include <optional>

#include "ops/algorithms/passes/algorithm.h"
#include "ops/arithmetic/squared_norm.h"
#include "ops/schedules/scaled_reduction.h"

namespace rueda {

// `input` and `output` hold `elements` contiguous elements; they may be the same. A vector that rank 0 found
// short is reduced in pairs. Any other vector goes round a ring, or through an ordered_pass and then a ring
// if its order is fixed. `squares`: if any, counts them as elements of the fused buffer. Cost: see
// doubling_allreduce.h, ring_pass.h and ordered_pass.h.
std::unique_ptr<Algorithm> contiguous_allreduce(const Route& route, const ScaledReduction& reduction,
                                                const void* input, void* output, std::int64_t elements,
                                                const std::optional<SquaredNorm>& squares);

// The way that contiguous_allreduce() takes.
PlanRoute route_of_allreduce(const ScaledReduction& reduction);

}  // namespace rueda
