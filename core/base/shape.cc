// SPDX-License-Identifier: Apache-2.0
#include "rueda/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rueda {

std::optional<std::int64_t> checked_element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return count;
}

std::int64_t row_element_count(std::span<const std::int64_t> shape) {
  return shape.empty() ? 1 : element_count(shape.subspan(1));
}

Strides contiguous_strides(std::span<const std::int64_t> shape) {
  Strides strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

std::string to_string(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace rueda
