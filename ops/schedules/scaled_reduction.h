// SPDX-License-Identifier: Apache-2.0
// The reduction that an algorithm is to carry out, without the memory of the data.
#pragma once

#include "core/control/messages/plan.h"
#include "ops/kernels/kernels.h"

namespace rueda {

// How elements are reduced. Average divides at the end, by the number of ranks.
struct ScaledReduction {
  DataType dtype = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  kernels::Scale prescale;
  kernels::Scale postscale;
  ReductionOrder order = ReductionOrder::any;
  Compression compression = Compression::none;  // of all values
  Pairing pairing = Pairing::none;
  bool of_sums = false;  // what is to be reduced are partial sums, in accumulators

  const kernels::Accumulation& accumulation() const { return kernels::accumulation_of(dtype, op); }

  static ScaledReduction of(const Plan& plan, Rank size) {
    return {plan.dtype,
            plan.reduce_op,
            {plan.prescale_factor, 1},
            {plan.postscale_factor, plan.reduce_op == ReduceOp::average ? size : 1},
            plan.reduction_order,
            plan.compression == Compression::topk ? Compression::none : plan.compression,
            plan.pairing};
  }
};

}  // namespace rueda
