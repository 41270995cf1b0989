// SPDX-License-Identifier: Apache-2.0
// The sum of the squares of a vector, in float64.
#pragma once

#include <array>
#include <cstddef>
#include <limits>

#include "ops/kernels/level.h"

namespace rueda::kernels {

// Element i is added in lane i mod 16, so that every level gives the same bits: enough chains of additions
// for none to wait for its last one.
inline constexpr std::size_t kSquareLanes = 16;
using SquareLanes = std::array<double, kSquareLanes>;

// Adds the squares of `count` elements to the lanes; `count` is a multiple of their number but at the end.
template <class T>
struct SquareSumBody {
  RUEDA_INLINE void run(SquareLanes* result, const T* values, std::size_t count) {
    SquareLanes lanes = *result;
    std::size_t i = 0;
    for (; i + kSquareLanes <= count; i += kSquareLanes) add(lanes, values + i, kSquareLanes);
    add(lanes, values + i, count - i);
    *result = lanes;
  }
  RUEDA_INLINE void add(SquareLanes& lanes, const T* values, std::size_t count) {
    for (std::size_t lane = 0; lane < count; ++lane) {
      const auto value = static_cast<double>(values[lane]);
      lanes[lane] += value * value;
    }
  }
};

inline double sum_of(SquareLanes lanes) {
  for (std::size_t half = kSquareLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  // One NaN: which of several a sum keeps is the compiler's choice.
  const double sum = lanes.front();
  return sum != sum ? std::numeric_limits<double>::quiet_NaN() : sum;
}

}  // namespace rueda::kernels
