// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16 to float32 and back. Rounds to nearest, ties to even; overflow is infinity, a NaN
// stays a NaN, subnormals are exact. Constant expressions, so that ops/cuda may compile them for devices.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ops/kernels/level.h"

namespace rueda::kernels {

struct Bfloat16 {
  using Stored = std::uint16_t;
  constexpr RUEDA_INLINE float widen(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
  constexpr RUEDA_INLINE std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40;
    return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
};

// Without instructions for it. Every case is computed and the right one selected, so that the loop
// vectorises.
struct Float16 {
  using Stored = std::uint16_t;
  constexpr RUEDA_INLINE float widen(std::uint16_t half) {
    constexpr std::uint32_t kExponents = 0x7c00u << 13, kRebias = (127u - 15) << 23, kSmallest = 113u << 23;
    const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
    const std::uint32_t magnitude = std::uint32_t{half & 0x7fffu} << 13;
    const std::uint32_t normal = magnitude + kRebias;
    const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + kSmallest) -
                                                        std::bit_cast<float>(kSmallest));
    const std::uint32_t quiet = magnitude > kExponents ? 0x00400000 : 0;
    const std::uint32_t special = magnitude | 0x7f800000 | quiet;
    const std::uint32_t finite = magnitude < (0x0400u << 13) ? subnormal : normal;
    return std::bit_cast<float>(sign | (magnitude >= kExponents ? special : finite));
  }
  constexpr RUEDA_INLINE std::uint16_t narrow(float value) {
    constexpr std::uint32_t kSmallestNormal = 113u << 23, kOverflow = (127u + 16) << 23;
    constexpr std::uint32_t kAlign = ((127u - 15) + (23 - 10) + 1)
                                     << 23;  // adding this float puts subnormal bits lowest
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const std::uint32_t normal = (magnitude - ((127u - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAlign)) - kAlign;
    const std::uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    const std::uint32_t special = magnitude > 0x7f800000 ? nan : 0x7c00;
    const std::uint32_t finite = magnitude < kSmallestNormal ? subnormal : normal;
    return static_cast<std::uint16_t>(sign | (magnitude >= kOverflow ? special : finite));
  }
};

template <class Format>
struct WidenBody {
  RUEDA_INLINE void run(float* __restrict to, const std::uint16_t* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = Format::widen(from[i]);
  }
};

template <class Format>
struct NarrowBody {
  RUEDA_INLINE void run(std::uint16_t* __restrict to, const float* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = Format::narrow(from[i]);
  }
};

// float16 by the processor's own conversions (F16C). Same bits as Float16.
void widen_float16_f16c(float* to, const std::uint16_t* from, std::size_t count);
void narrow_float16_f16c(std::uint16_t* to, const float* from, std::size_t count);

}  // namespace rueda::kernels
