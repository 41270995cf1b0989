// SPDX-License-Identifier: Apache-2.0
// Numbers of different sizes, so that sums are rounded; most of them no 16-bit float has.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/engine/runtime.h"

namespace rueda {

inline float number(Rank rank, std::int64_t i) {
  return std::sin(static_cast<float>(rank * 37 + i * 11 + 1)) *
         std::exp2(static_cast<float>((rank * 5 + i) % 9));
}

// What this rank brings.
inline std::vector<float> own_values(const Runtime& runtime, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(number(runtime.topology().rank, i));
  return values;
}

}  // namespace rueda
