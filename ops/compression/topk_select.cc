// SPDX-License-Identifier: Apache-2.0
#include "ops/compression/topk_select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

namespace rueda {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;

// Ordered as magnitudes are; what is no number comes last.
std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }

// The magnitude of the last one that is picked, and how many that have it are.
struct Limit {
  std::uint32_t magnitude = 0;
  std::size_t equal = 0;
};

// The `count` largest, found digit by digit: each pass counts how often a digit comes among those that have
// the limit's digits before it.
Limit limit_of(std::span<const float> values, std::size_t count) {
  constexpr int kBits = 11;
  std::array<std::uint32_t, 1 << kBits> often;
  Limit limit{0, count};
  for (const int shift : {20, 10, 0}) {
    const int bits = shift == 20 ? 11 : 10;
    const std::uint32_t before = limit.magnitude >> (shift + bits), mask = (1u << bits) - 1;
    often.fill(0);
    for (const float value : values) {
      const std::uint32_t digits = magnitude(value) >> shift;
      if (digits >> bits == before) ++often[digits & mask];
    }
    std::uint32_t digit = mask;
    for (; often[digit] < limit.equal; --digit) limit.equal -= often[digit];
    limit.magnitude |= digit << shift;
  }
  return limit;
}

}  // namespace

std::int64_t picked_of(double share, std::int64_t elements) {
  const double wanted = std::ceil(share * static_cast<double>(elements));
  return std::clamp(static_cast<std::int64_t>(wanted), std::min<std::int64_t>(elements, 1), elements);
}

void pick_largest(std::span<float> values, std::span<Picked> picked) {
  if (picked.empty()) return;
  Limit limit = limit_of(values, picked.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t own = magnitude(values[i]);
    if (own < limit.magnitude && own < kInfinity) continue;
    const bool travels = own > limit.magnitude || (own == limit.magnitude && limit.equal > 0);
    if (own == limit.magnitude && travels) --limit.equal;
    if (travels) picked[next++] = {static_cast<std::uint32_t>(i), values[i]};
    if (travels || own >= kInfinity) values[i] = 0.0f;
  }
}

bool add_picked(std::span<float> sums, std::span<const Picked> picked) {
  for (const Picked& each : picked) {
    if (each.index >= sums.size()) return false;
    sums[each.index] += each.value;
  }
  return true;
}

}  // namespace rueda
