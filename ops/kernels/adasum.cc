// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels/adasum.h"

#include <array>
#include <limits>

#include "core/base/error.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/level.h"

namespace rueda::kernels {
namespace {

constexpr std::size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

// Of each lane.
struct Sums {
  Lanes aa{}, ab{}, bb{};
};

template <class T>
struct ProductsBody {
  RUEDA_INLINE void run(Sums* result, const T* a, const T* b, std::size_t count) {
    Sums sums;
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) add(sums, a + i, b + i, kLanes);
    add(sums, a + i, b + i, count - i);
    *result = sums;
  }
  RUEDA_INLINE void add(Sums& sums, const T* a, const T* b, std::size_t count) {
    for (std::size_t lane = 0; lane < count; ++lane) {
      const auto x = static_cast<double>(a[lane]), y = static_cast<double>(b[lane]);
      sums.aa[lane] += x * x;
      sums.ab[lane] += x * y;
      sums.bb[lane] += y * y;
    }
  }
};

// A NaN is always the same one: which of several a sum keeps is the compiler's choice.
template <class T>
struct AdasumBody {
  RUEDA_INLINE void run(T* __restrict a, const T* __restrict b, std::size_t count, AdasumFactors factors) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto sum =
          static_cast<T>(factors.a * static_cast<double>(a[i]) + factors.b * static_cast<double>(b[i]));
      a[i] = sum != sum ? std::numeric_limits<T>::quiet_NaN() : sum;
    }
  }
};

double sum_of(Lanes lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes.front();
}

template <class Level, class T>
Products products(const void* a, const void* b, std::size_t count) {
  Sums sums;
  Level::template run<ProductsBody<T>>(&sums, static_cast<const T*>(a), static_cast<const T*>(b), count);
  return {sum_of(sums.aa), sum_of(sums.ab), sum_of(sums.bb)};
}

template <class Level, class T>
void combine(void* a, const void* b, std::size_t count, AdasumFactors factors) {
  Level::template run<AdasumBody<T>>(static_cast<T*>(a), static_cast<const T*>(b), count, factors);
}

template <class Level, class T>
constexpr AdasumKernels kKernels{products<Level, T>, combine<Level, T>};

template <class T>
const AdasumKernels& at(std::string_view level) {
  if (level == Avx512::kName) return kKernels<Avx512, T>;
  if (level == Avx2::kName) return kKernels<Avx2, T>;
  RUEDA_ASSERT(level == Base::kName);
  return kKernels<Base, T>;
}

}  // namespace

AdasumFactors adasum_factors(const Products& products) {
  auto factor = [&](double square) { return square == 0.0 ? 1.0 : 1.0 - products.ab / square / 2; };
  return {factor(products.aa), factor(products.bb)};
}

const AdasumKernels& adasum_kernels_at(std::string_view level, DataType accumulator) {
  RUEDA_ASSERT(accumulator == DataType::float32 || accumulator == DataType::float64);
  return accumulator == DataType::float32 ? at<float>(level) : at<double>(level);
}

const AdasumKernels& adasum_kernels_for(DataType accumulator) {
  return adasum_kernels_at(active_level(), accumulator);
}

}  // namespace rueda::kernels
