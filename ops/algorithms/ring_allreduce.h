// SPDX-License-Identifier: Apache-2.0
// Allreduce by a ring: reduce-scatter, then all-gather, of equal segments. Cost: see ring_pass.h.
#pragma once

#include "ops/algorithms/passes/ring_pass.h"
#include "ops/schedules/scaled_reduction.h"

namespace rueda {

// `input` and `output` hold `elements` contiguous elements; they may be the same.
RingPass::Job ring_allreduce_job(const Route& route, const ScaledReduction& reduction, const void* input,
                                 void* output, std::int64_t elements);

// The job of a ring pass over `bounds`, reducing by `reduction`.
RingPass::Job ring_job(const Route& route, const ScaledReduction& reduction,
                       std::vector<std::int64_t> bounds);

}  // namespace rueda
