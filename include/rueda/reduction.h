// SPDX-License-Identifier: Apache-2.0
// How a reduction combines the values of several ranks.
#pragma once

#include "rueda/types.h"

namespace rueda {

// The options of allreduce and reducescatter: op(x_0 * prescale, x_1 * prescale, ...) * postscale, element by
// element. With adasum both factors scale the result alike, since adasum(c a, c b) = c adasum(a, b). All
// ranks give the same options, else each gets Mismatch. The factors are those of Horovod.
struct Reduction {
  ReduceOp op = ReduceOp::average;              // of the ranks' values
  double prescale_factor = 1.0;                 // multiplies each value before the reduction
  double postscale_factor = 1.0;                // multiplies the result
  ReductionOrder order = ReductionOrder::any;   // RUEDA_REDUCTION_ORDER=fixed makes it fixed everywhere
  Compression compression = Compression::none;  // of float32; other types, and adasum, travel as they are
  // Also computes the sum of the squares of the result, Handle::share_of_square_sum(): for a norm, or to find
  // values that are not finite. Allreduce of floating point only.
  bool measure = false;
  // For Compression::topk: the share of the elements that a host sends, of each slice of the tensor that one
  // rank carries to other hosts. More than 0, at most 1. Each such element costs 8 bytes.
  double compression_share = 0.01;
};

}  // namespace rueda
