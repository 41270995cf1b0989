// SPDX-License-Identifier: Apache-2.0
// Loop bodies for elements that are their own accumulator: integers, float32, float64 and bool.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "core/base/error.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/level.h"

namespace rueda::kernels {

// bool is kept as a byte that is not zero.
struct Flag {
  std::uint8_t byte;
};

// Integers wrap: they are computed as unsigned numbers, at least as wide as int so that nothing is promoted
// to it.
template <class T>
using Wide = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;

// Of two NaNs the left one is kept, explicitly (a + a makes it quiet): the processor keeps the first operand
// of a sum, and the compiler may swap them.
struct Sum {
  template <class T>
  RUEDA_INLINE T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a != a ? a + a : a + b;
    } else {
      return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
    }
  }
  RUEDA_INLINE Flag of(Flag a, Flag b) { return {static_cast<std::uint8_t>((a.byte | b.byte) != 0)}; }
};

struct Product {
  template <class T>
  RUEDA_INLINE T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a != a ? a + a : a * b;
    } else {
      return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
    }
  }
  RUEDA_INLINE Flag of(Flag a, Flag b) { return {static_cast<std::uint8_t>((a.byte != 0) & (b.byte != 0))}; }
};

// A NaN on either side stays: comparing with it is false, and a != a finds it on the left.
struct Min {
  template <class T>
  RUEDA_INLINE T of(T a, T b) {
    return ((a < b) | (a != a)) ? a : b;
  }
  RUEDA_INLINE Flag of(Flag a, Flag b) { return Product::of(a, b); }
};

struct Max {
  template <class T>
  RUEDA_INLINE T of(T a, T b) {
    return ((a > b) | (a != a)) ? a : b;
  }
  RUEDA_INLINE Flag of(Flag a, Flag b) { return Sum::of(a, b); }
};

// How one element is scaled; each is a template argument, so that loops carry no branch.
struct Unscaled {
  template <class T>
  RUEDA_INLINE T of(T value, Scale) {
    return value;
  }
};
struct Multiplied {  // floating point
  template <class T>
  RUEDA_INLINE T of(T value, Scale scale) {
    return value * static_cast<T>(scale.factor / static_cast<double>(scale.divisor));
  }
};
// Integers, exact. Up to 32 bits by floating point, for which there are vector instructions: with `value`
// below 2^24 (2^53) in magnitude, a quotient of integers is never so near below an integer that float32
// (float64) rounds it up.
struct Divided {
  template <class T>
  RUEDA_INLINE T of(T value, Scale scale) {
    if constexpr (sizeof(T) == 8) {
      return value / scale.divisor;
    } else {
      using Quotient = std::conditional_t<sizeof(T) == 4, double, float>;
      const auto quotient =
          static_cast<Quotient>(static_cast<std::int32_t>(value)) / static_cast<Quotient>(scale.divisor);
      return static_cast<T>(static_cast<std::int32_t>(quotient));
    }
  }
};

// An integer that T holds, rounded toward zero. A NaN, from a factor that is not finite, becomes the least.
template <class T>
RUEDA_INLINE T saturated(double value) {
  using Limits = std::numeric_limits<T>;
  constexpr double kLeast = static_cast<double>(Limits::min()), kMost = static_cast<double>(Limits::max());
  if constexpr (sizeof(T) == 8) {
    return value >= kMost ? Limits::max() : value >= kLeast ? static_cast<T>(value) : Limits::min();
  } else {
    value = value > kLeast ? value : kLeast;
    value = value < kMost ? value : kMost;
    return static_cast<T>(static_cast<std::int32_t>(value));
  }
}

struct Saturated {  // integers, by way of float64
  template <class T>
  RUEDA_INLINE T of(T value, Scale scale) {
    using Whole = std::conditional_t<sizeof(T) == 8, T, std::int32_t>;
    return saturated<T>(static_cast<double>(static_cast<Whole>(value)) * scale.factor /
                        static_cast<double>(scale.divisor));
  }
};

template <class T, class Scaling>
struct CopyBody {
  RUEDA_INLINE void run(T* to, const T* from, std::size_t count, Scale scale) {
    for (std::size_t i = 0; i < count; ++i) to[i] = Scaling::of(from[i], scale);
  }
};

// How values become accumulators when both are T; Bfloat16 and Float16 are others.
template <class T>
struct Same {
  using Stored = T;
  RUEDA_INLINE T widen(T value) { return value; }
  RUEDA_INLINE T narrow(T value) { return value; }
};

template <class T, class Format, class Operator, class Scaling>
struct CombineBody {
  RUEDA_INLINE void run(T* __restrict acc, const typename Format::Stored* __restrict values,
                        std::size_t count, Scale scale) {
    for (std::size_t i = 0; i < count; ++i)
      acc[i] = Operator::of(acc[i], Scaling::of(Format::widen(values[i]), scale));
  }
};

// Calls use.operator()<Scaling>() for the way in which T is to be scaled.
template <class T, class Use>
void choose_scaling(Scale scale, Use use) {
  if constexpr (std::is_same_v<T, Flag>) {
    use.template operator()<Unscaled>();
  } else if (scale.identity()) {
    use.template operator()<Unscaled>();
  } else if constexpr (std::is_floating_point_v<T>) {
    use.template operator()<Multiplied>();
  } else if (scale.factor == 1.0) {
    use.template operator()<Divided>();
  } else {
    use.template operator()<Saturated>();
  }
}

// to = from * scale; load and store of these types.
template <class Level, class T>
void copy_scaled(void* to, const void* from, std::size_t count, Scale scale) {
  if (to == from && scale.identity()) return;
  choose_scaling<T>(scale, [&]<class Scaling>() {
    Level::template run<CopyBody<T, Scaling>>(static_cast<T*>(to), static_cast<const T*>(from), count, scale);
  });
}

template <class Level, class T, class Format = Same<T>>
void combine_scaled(ReduceOp op, void* acc, const void* values, std::size_t count, Scale scale) {
  auto* to = static_cast<T*>(acc);
  const auto* from = static_cast<const typename Format::Stored*>(values);
  choose_scaling<T>(scale, [&]<class Scaling>() {
    auto run = [&]<class Operator>(Operator) {
      Level::template run<CombineBody<T, Format, Operator, Scaling>>(to, from, count, scale);
    };
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average: return run(Sum{});
      case ReduceOp::min: return run(Min{});
      case ReduceOp::max: return run(Max{});
      case ReduceOp::product: return run(Product{});
      case ReduceOp::adasum: RUEDA_ASSERT(op != ReduceOp::adasum);  // not by elements: adasum.h
    }
  });
}

}  // namespace rueda::kernels
