// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels/half.h"

#include <immintrin.h>

namespace rueda::kernels {

RUEDA_TARGET_AVX2 void widen_float16_f16c(float* to, const std::uint16_t* from, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < count; ++i) to[i] = Float16::widen(from[i]);
}

RUEDA_TARGET_AVX2 void narrow_float16_f16c(std::uint16_t* to, const float* from, std::size_t count) {
  constexpr int kNearestEven = 0;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), kNearestEven));
  }
  for (; i < count; ++i) to[i] = Float16::narrow(from[i]);
}

}  // namespace rueda::kernels
