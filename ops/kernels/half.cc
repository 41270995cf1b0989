// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels/half.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

namespace rueda::kernels {
namespace {

constexpr std::size_t kLanes = 8;
constexpr int kNearestEven = 0;

RUEDA_TARGET_AVX2 inline void widen_lanes(float* to, const std::uint16_t* from) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

RUEDA_TARGET_AVX2 inline void narrow_lanes(std::uint16_t* to, const float* from) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(_mm256_loadu_ps(from), kNearestEven));
}

}  // namespace

RUEDA_TARGET_AVX2 void widen_float16_f16c(float* to, const std::uint16_t* from, std::size_t count) {
  const std::size_t whole = count / kLanes * kLanes;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < whole; i += kLanes) widen_lanes(to + i, from + i);
  if (whole == count) return;
  std::array<std::uint16_t, kLanes> rest{};
  std::array<float, kLanes> wide;
  std::copy(from + whole, from + count, rest.data());
  widen_lanes(wide.data(), rest.data());
  std::copy_n(wide.data(), count - whole, to + whole);
}

RUEDA_TARGET_AVX2 void narrow_float16_f16c(std::uint16_t* to, const float* from, std::size_t count) {
  const std::size_t whole = count / kLanes * kLanes;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < whole; i += kLanes) narrow_lanes(to + i, from + i);
  if (whole == count) return;
  std::array<float, kLanes> rest{};
  std::array<std::uint16_t, kLanes> narrow;
  std::copy(from + whole, from + count, rest.data());
  narrow_lanes(narrow.data(), rest.data());
  std::copy_n(narrow.data(), count - whole, to + whole);
}

}  // namespace rueda::kernels
