// SPDX-License-Identifier: Apache-2.0
// Percentiles that describe a list of times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rueda::bench {

// The value that `share` of the others are below; of one at least.
inline double percentile(std::vector<double> values, double share) {
  const auto index = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + index);
  return values[static_cast<std::size_t>(index)];
}

inline double median(const std::vector<double>& values) { return percentile(values, 0.5); }

}  // namespace rueda::bench
