// SPDX-License-Identifier: Apache-2.0
// The order of a fixed reduction, written plainly: what results are compared with, bit for bit.
#pragma once

#include <cstddef>

namespace rueda {

// The sum of value(first) to value(first + count - 1): as many as the largest power of two below their
// number, plus the others.
template <class Value>
auto tree_sum(Value value, std::size_t first, std::size_t count) -> decltype(value(first)) {
  if (count == 1) return value(first);
  std::size_t left = 1;
  while (left * 2 < count) left *= 2;
  return tree_sum(value, first, left) + tree_sum(value, first + left, count - left);
}

}  // namespace rueda
