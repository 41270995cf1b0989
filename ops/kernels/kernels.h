// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic: the only place that switches on DataType. Pure functions, callable from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "rueda/types.h"

namespace rueda::kernels {

// value * factor / divisor, with a finite factor and a divisor of at least 1. On floating point one
// multiplication by factor / divisor (in the accumulator's type). On integers: exact integer division,
// rounding toward zero, when factor is 1; else computed in float64, rounded toward zero and saturated to the
// type's range. On bool it must be the identity.
struct Scale {
  double factor = 1.0;
  std::int64_t divisor = 1;
  bool identity() const { return factor == 1.0 && divisor == 1; }
};

// The arithmetic of one DataType. "acc" arrays hold accumulator_of(dtype), "values" arrays hold dtype.
// Pointers need no more alignment than their element. Arrays do not overlap, save that load and store may be
// given one address for both when both types are the same. `op` average accumulates as sum does; adasum has
// kernels of its own. A NaN in acc or values gives a NaN in acc.
struct Kernels {
  // acc = values * scale
  void (*load)(void* acc, const void* values, std::size_t count, Scale scale);
  // acc = acc op (values * scale)
  void (*combine)(ReduceOp op, void* acc, const void* values, std::size_t count, Scale scale);
  // values = acc * scale
  void (*store)(void* values, const void* acc, std::size_t count, Scale scale);
  // Each of `targets` = the sum of all `copies` * scale, in one pass, for vectors that other cores hold. The
  // bits are those of load, combine and store in the order of ReductionTree. Targets may be the copies
  // themselves. Bit k of `streamed`: targets[k] begins at a line of cache, and is stored past the caches
  // (line.h). Null for float16, as its conversions are loops of their own.
  using SumEverywhere = void (*)(const void* const* copies, void* const* targets, std::size_t count,
                                 Scale scale, unsigned streamed);
  SumEverywhere sum_of_two;   // of 2 copies, into 2 targets
  SumEverywhere sum_of_four;  // of 4, into 4
  // The sum of the squares of values, in float64; not finite if a value is not. Null but for floating point.
  double (*square_sum)(const void* values, std::size_t count);
};

// Chosen once by what the processor has: "avx512", "avx2" or "base". Every level gives the same bits, those
// of NaNs included.
const Kernels& kernels_for(DataType dtype);

// How a reduction adds up: in accumulator_of(dtype), but averages of integers in something wider, so that
// they do not wrap: int32 for 8 and 16 bits, float64 for int32, 128 bits for int64. The kernels of such an
// average can only add. They scale and saturate what they load as values of the dtype; what they store is
// scaled and saturated once more.
struct Accumulation {
  const Kernels* values = nullptr;  // of the dtype
  const Kernels* sums = nullptr;    // of accumulators, taken as values; only load and combine, unscaled
  std::size_t sum_size = 0;         // bytes of an accumulator
};
const Accumulation& accumulation_of(DataType dtype, ReduceOp op);

std::string_view active_level();
// Levels this machine can run, and the table of one of them (for tests and benchmarks).
std::span<const std::string_view> available_levels();
const Kernels& kernels_at(std::string_view level, DataType dtype);
Accumulation accumulation_at(std::string_view level, DataType dtype, ReduceOp op);

}  // namespace rueda::kernels
