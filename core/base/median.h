// SPDX-License-Identifier: Apache-2.0
// The middle of some values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rueda {

// Of an even number the mean of the two in the middle. There is at least one.
inline double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace rueda
