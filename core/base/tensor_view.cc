// SPDX-License-Identifier: Apache-2.0
#include "rueda/tensor_view.h"

#include <limits>

namespace rueda {

bool is_contiguous(const Shape& shape, const Strides& strides) {
  if (strides.empty()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;  // no element, so nothing is out of place
    if (shape[i] != 1 && strides[i] != expected) return element_count(shape) == 0;
    expected *= shape[i];
  }
  return true;
}

std::optional<std::int64_t> checked_byte_count(const Shape& shape, DataType dtype) {
  std::optional<std::int64_t> count = checked_element_count(shape);
  std::int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, static_cast<std::int64_t>(size_of(dtype)), &bytes))
    return std::nullopt;
  if (bytes > std::numeric_limits<std::int64_t>::max() / 2) return std::nullopt;  // leaves room to round up
  return bytes;
}

bool TensorView::contiguous() const { return is_contiguous(shape, strides); }
bool ConstTensorView::contiguous() const { return is_contiguous(shape, strides); }

}  // namespace rueda
