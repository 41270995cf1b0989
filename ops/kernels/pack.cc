// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels/pack.h"

#include <cstring>

#include "ops/kernels/level.h"

namespace rueda::kernels {
namespace {

// A layout with dimensions of one element dropped and neighbours merged where one continues the other.
struct Layout {
  Shape shape;
  Strides strides;  // bytes
};

Layout merged(const Shape& shape, const Strides& given, std::int64_t element) {
  const Strides strides = given.empty() ? contiguous_strides(shape) : given;
  Layout layout;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const std::int64_t stride = strides[i] * element;
    if (!layout.shape.empty() && layout.strides.back() == shape[i] * stride) {
      layout.shape.back() *= shape[i];
      layout.strides.back() = stride;
    } else {
      layout.shape.push_back(shape[i]);
      layout.strides.push_back(stride);
    }
  }
  return layout;
}

// Calls row(byte offset in the tensor, index of the row) for every row of the last dimension, in logical order.
template <class Row>
void for_each_row(const Layout& layout, Row row) {
  const std::size_t outer = layout.shape.size() - 1;
  Shape index(outer, 0);
  std::int64_t offset = 0;
  for (std::int64_t number = 0;; ++number) {
    row(offset, number);
    std::size_t d = outer;
    while (d > 0) {
      --d;
      offset += layout.strides[d];
      if (++index[d] < layout.shape[d]) break;
      offset -= layout.strides[d] * layout.shape[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

template <class Word>
void copy_row(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(Word));
}

void copy_strided(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride, std::int64_t count,
                  std::int64_t element) {
  if (to_stride == element && from_stride == element) {
    return copy_bytes(to, from, static_cast<std::size_t>(count * element));
  }
  switch (element) {
    case 1: return copy_row<std::uint8_t>(to, to_stride, from, from_stride, count);
    case 2: return copy_row<std::uint16_t>(to, to_stride, from, from_stride, count);
    case 4: return copy_row<std::uint32_t>(to, to_stride, from, from_stride, count);
    default: return copy_row<std::uint64_t>(to, to_stride, from, from_stride, count);
  }
}

// Calls copy(byte offset in the tensor, its stride, byte offset in packed memory, count) for every row.
template <class Copy>
void walk(const Shape& shape, const Strides& strides, std::int64_t element, Copy copy) {
  if (element_count(shape) == 0) return;
  const Layout layout = merged(shape, strides, element);
  if (layout.shape.empty()) return copy(0, element, 0, 1);  // one element
  const std::int64_t row = layout.shape.back();
  for_each_row(layout, [&](std::int64_t offset, std::int64_t number) { copy(offset, layout.strides.back(), number * row * element, row); });
}

}  // namespace

void pack(void* to, const ConstTensorView& from) {
  const auto element = static_cast<std::int64_t>(size_of(from.dtype));
  auto* packed = static_cast<std::byte*>(to);
  const auto* data = static_cast<const std::byte*>(from.data);
  walk(from.shape, from.strides, element, [&](std::int64_t offset, std::int64_t stride, std::int64_t place, std::int64_t count) {
    copy_strided(packed + place, element, data + offset, stride, count, element);
  });
}

void unpack(const TensorView& to, const void* from) {
  const auto element = static_cast<std::int64_t>(size_of(to.dtype));
  const auto* packed = static_cast<const std::byte*>(from);
  auto* data = static_cast<std::byte*>(to.data);
  walk(to.shape, to.strides, element, [&](std::int64_t offset, std::int64_t stride, std::int64_t place, std::int64_t count) {
    copy_strided(data + offset, stride, packed + place, element, count, element);
  });
}

// Whole vectors in a plain loop; memcpy for what is too short for `rep movsb` to matter.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  using Line __attribute__((vector_size(64), aligned(1), may_alias)) = char;
  constexpr std::size_t kShort = 2048;
  if (bytes == 0) return;
  std::size_t done = 0;
  if (bytes > kShort) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    for (; done + sizeof(Line) <= bytes; done += sizeof(Line)) {
      *reinterpret_cast<Line*>(target + done) = *reinterpret_cast<const Line*>(source + done);
    }
  }
  std::memcpy(static_cast<std::byte*>(to) + done, static_cast<const std::byte*>(from) + done, bytes - done);
}

}  // namespace rueda::kernels
