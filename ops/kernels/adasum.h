// SPDX-License-Identifier: Apache-2.0
// The arithmetic of Adasum on two vectors.
#pragma once

#include <cstddef>
#include <string_view>

#include "rueda/types.h"

namespace rueda::kernels {

// Of two vectors a and b, or of parts of them: parts add up.
struct Products {
  double aa = 0.0;
  double ab = 0.0;
  double bb = 0.0;
};

// Adasum of a and b is factors.a * a + factors.b * b.
struct AdasumFactors {
  double a = 1.0;
  double b = 1.0;
};
AdasumFactors adasum_factors(const Products& products);

// The arithmetic of one accumulator's type, float32 or float64. Pointers need no more alignment than their
// element; arrays do not overlap. All is computed in float64. Every level gives the same bits, those of NaNs
// included.
struct AdasumKernels {
  // Element i is added in lane i mod 8, the lanes in pairs at the end.
  Products (*products)(const void* a, const void* b, std::size_t count);
  // a = factors.a * a + factors.b * b, rounded to the accumulator's type.
  void (*combine)(void* a, const void* b, std::size_t count, AdasumFactors factors);
};

const AdasumKernels& adasum_kernels_for(DataType accumulator);
// Of one of available_levels(), for tests and benchmarks.
const AdasumKernels& adasum_kernels_at(std::string_view level, DataType accumulator);

}  // namespace rueda::kernels
