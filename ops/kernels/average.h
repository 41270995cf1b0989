// SPDX-License-Identifier: Apache-2.0
// Loop bodies for averages of integers. Their sums are wider than the values, so they do not wrap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/kernels/arithmetic.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/level.h"

namespace rueda::kernels {

__extension__ typedef __int128 Int128;

// The sum of values of T, exact for 2^16 of them at least. float64 holds whole numbers up to 2^53, and its
// vector instructions are older than those of 64-bit integers.
template <class T>
using AverageSum =
    std::conditional_t<(sizeof(T) < 4), std::int32_t, std::conditional_t<sizeof(T) == 4, double, Int128>>;

template <class T, class Scaling>
struct LoadSumBody {
  RUEDA_INLINE void run(AverageSum<T>* sums, const T* values, std::size_t count, Scale scale) {
    for (std::size_t i = 0; i < count; ++i)
      sums[i] = static_cast<AverageSum<T>>(Scaling::of(values[i], scale));
  }
};

template <class T, class Scaling>
struct AddToSumBody {
  RUEDA_INLINE void run(AverageSum<T>* __restrict sums, const T* __restrict values, std::size_t count,
                        Scale scale) {
    for (std::size_t i = 0; i < count; ++i)
      sums[i] += static_cast<AverageSum<T>>(Scaling::of(values[i], scale));
  }
};

// Up to 32 bits the quotient is exact, as Divided says. A divisor of at least the number of values leaves
// nothing to saturate.
template <class T>
struct StoreSumBody {
  RUEDA_INLINE void run(T* values, const AverageSum<T>* sums, std::size_t count, Scale scale) {
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (sizeof(T) == 8) {
        values[i] = scale.factor == 1.0 ? quotient(sums[i], scale.divisor) : scaled(sums[i], scale);
      } else {
        values[i] = scaled(sums[i], scale);
      }
    }
  }
  RUEDA_INLINE T scaled(AverageSum<T> sum, Scale scale) {
    return saturated<T>(static_cast<double>(sum) * scale.factor / static_cast<double>(scale.divisor));
  }
  RUEDA_INLINE T quotient(AverageSum<T> sum, std::int64_t divisor) {
    using Limits = std::numeric_limits<T>;
    const AverageSum<T> exact = sum / divisor;
    return exact > Limits::max()   ? Limits::max()
           : exact < Limits::min() ? Limits::min()
                                   : static_cast<T>(exact);
  }
};

template <class Level, class T>
struct Averaging {
  using Sum = AverageSum<T>;

  static void load(void* acc, const void* values, std::size_t count, Scale scale) {
    choose_scaling<T>(scale, [&]<class Scaling>() {
      Level::template run<LoadSumBody<T, Scaling>>(static_cast<Sum*>(acc), static_cast<const T*>(values),
                                                   count, scale);
    });
  }
  static void combine(ReduceOp, void* acc, const void* values, std::size_t count, Scale scale) {
    choose_scaling<T>(scale, [&]<class Scaling>() {
      Level::template run<AddToSumBody<T, Scaling>>(static_cast<Sum*>(acc), static_cast<const T*>(values),
                                                    count, scale);
    });
  }
  static void store(void* values, const void* acc, std::size_t count, Scale scale) {
    Level::template run<StoreSumBody<T>>(static_cast<T*>(values), static_cast<const Sum*>(acc), count, scale);
  }
  static constexpr Kernels table() { return {load, combine, store, nullptr, nullptr, nullptr}; }
};

// The sums of int64, for which there is no DataType, as values of their own: they are copied and added.
struct SumsOfInt64 {
  static void load(void* acc, const void* values, std::size_t count, Scale) {
    std::memcpy(acc, values, count * sizeof(Int128));
  }
  static void combine(ReduceOp, void* acc, const void* values, std::size_t count, Scale) {
    auto* to = static_cast<Int128*>(acc);
    const auto* from = static_cast<const Int128*>(values);
    for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
  }
  static constexpr Kernels table() { return {load, combine, nullptr, nullptr, nullptr, nullptr}; }
};

}  // namespace rueda::kernels
