// SPDX-License-Identifier: Apache-2.0
// Loop bodies for elements that are their own accumulator: integers, float32, float64 and bool.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "ops/kernels/kernels.h"
#include "ops/kernels/level.h"

namespace rueda::kernels {

// bool is kept as a byte that is not zero.
struct Flag {
  std::uint8_t byte;
};

// Integers wrap: they are computed as unsigned numbers, at least as wide as int so that nothing is promoted to it.
template <class T>
using Wide = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;

struct Sum {
  template <class T>
  RUEDA_INLINE T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
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
      return a * b;
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
    return (a < b) | (a != a) ? a : b;
  }
  RUEDA_INLINE Flag of(Flag a, Flag b) { return Product::of(a, b); }
};

struct Max {
  template <class T>
  RUEDA_INLINE T of(T a, T b) {
    return (a > b) | (a != a) ? a : b;
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
struct Divided {  // integers, exact
  template <class T>
  RUEDA_INLINE T of(T value, Scale scale) {
    return static_cast<T>(static_cast<std::int64_t>(value) / scale.divisor);
  }
};
struct Saturated {  // integers, by way of float64
  template <class T>
  RUEDA_INLINE T of(T value, Scale scale) {
    constexpr double kLeast = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double kMost = static_cast<double>(std::numeric_limits<T>::max());
    const double scaled = std::trunc(static_cast<double>(value) * scale.factor / static_cast<double>(scale.divisor));
    if (scaled <= kLeast) return std::numeric_limits<T>::min();
    if (scaled >= kMost) return std::numeric_limits<T>::max();
    return static_cast<T>(scaled);
  }
};

template <class T, class Scaling>
struct CopyBody {
  RUEDA_INLINE void run(T* to, const T* from, std::size_t count, Scale scale) {
    for (std::size_t i = 0; i < count; ++i) to[i] = Scaling::of(from[i], scale);
  }
};

template <class T, class Operator, class Scaling>
struct CombineBody {
  RUEDA_INLINE void run(T* __restrict acc, const T* __restrict values, std::size_t count, Scale scale) {
    for (std::size_t i = 0; i < count; ++i) acc[i] = Operator::of(acc[i], Scaling::of(values[i], scale));
  }
};

// Calls `use.template with<Scaling>()` for the way in which T is to be scaled.
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

template <class Level, class T>
void combine_scaled(ReduceOp op, void* acc, const void* values, std::size_t count, Scale scale) {
  auto* to = static_cast<T*>(acc);
  const auto* from = static_cast<const T*>(values);
  choose_scaling<T>(scale, [&]<class Scaling>() {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average: return Level::template run<CombineBody<T, Sum, Scaling>>(to, from, count, scale);
      case ReduceOp::min: return Level::template run<CombineBody<T, Min, Scaling>>(to, from, count, scale);
      case ReduceOp::max: return Level::template run<CombineBody<T, Max, Scaling>>(to, from, count, scale);
      case ReduceOp::product: return Level::template run<CombineBody<T, Product, Scaling>>(to, from, count, scale);
    }
  });
}

}  // namespace rueda::kernels
