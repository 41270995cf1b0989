// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels/pack.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/kernels/level.h"

namespace rueda::kernels {
namespace {

// Whole vectors in a plain loop from the first aligned one on; `bytes` is at least two vectors.
template <class Level>
struct CopyBody {
  static constexpr std::size_t kVector = Level::kVectorBytes;
  using Vector __attribute__((vector_size(kVector))) = char;

  RUEDA_INLINE void run(std::byte* to, const std::byte* from, std::size_t bytes) {
    copy_vector(to, from);
    std::size_t done = kVector - reinterpret_cast<std::uintptr_t>(to) % kVector;
#pragma GCC unroll 4
    for (; done + kVector <= bytes; done += kVector) copy_vector(to + done, from + done);
    copy_vector(to + bytes - kVector, from + bytes - kVector);
  }
  RUEDA_INLINE void copy_vector(std::byte* to, const std::byte* from) {
    Vector vector;
    __builtin_memcpy(&vector, from, kVector);
    __builtin_memcpy(to, &vector, kVector);
  }
};

// A layout with dimensions of one element dropped and neighbours merged where one continues the other.
struct Layout {
  Shape shape;
  Strides strides;  // bytes
};

Layout merged(const Shape& shape, const Strides& strides, std::int64_t element) {
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

// Calls row(byte offset in the tensor, index of the row) for every row of the last dimension, in logical
// order.
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
void copy_row(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(Word));
}

void copy_strided(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                  std::int64_t count, std::int64_t element) {
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
// Strided rows are done in columns of one cache line of packed memory, so that lines of the tensor are still
// in cache when the neighbouring row needs them.
template <class Copy>
void walk(const Shape& shape, const Strides& strides, std::int64_t element, Copy copy) {
  constexpr std::int64_t kLine = 64;
  if (is_contiguous(shape, strides)) return copy(0, element, 0, element_count(shape));
  const Layout layout = merged(shape, strides, element);
  const std::int64_t row = layout.shape.back(), stride = layout.strides.back();
  const std::int64_t width = stride == element ? row : kLine / element;
  for (std::int64_t begin = 0; begin < row; begin += width) {
    for_each_row(layout, [&](std::int64_t offset, std::int64_t number) {
      copy(offset + begin * stride, stride, (number * row + begin) * element, std::min(width, row - begin));
    });
  }
}

}  // namespace

void pack(void* to, const ConstTensorView& from) {
  const auto element = static_cast<std::int64_t>(size_of(from.dtype));
  auto* packed = static_cast<std::byte*>(to);
  const auto* data = static_cast<const std::byte*>(from.data);
  walk(from.shape, from.strides, element,
       [&](std::int64_t offset, std::int64_t stride, std::int64_t place, std::int64_t count) {
         copy_strided(packed + place, element, data + offset, stride, count, element);
       });
}

void unpack(const TensorView& to, const void* from) {
  const auto element = static_cast<std::int64_t>(size_of(to.dtype));
  const auto* packed = static_cast<const std::byte*>(from);
  auto* data = static_cast<std::byte*>(to.data);
  walk(to.shape, to.strides, element,
       [&](std::int64_t offset, std::int64_t stride, std::int64_t place, std::int64_t count) {
         copy_strided(data + offset, stride, packed + place, element, count, element);
       });
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kShort = 2048;  // memcpy takes no `rep movsb` up to here
  if (bytes == 0) return;
  if (bytes <= kShort) {
    std::memcpy(to, from, bytes);
    return;
  }
  static const auto copy = Avx2::available()
                               ? Avx2::run<CopyBody<Avx2>, std::byte*, const std::byte*, std::size_t>
                               : Base::run<CopyBody<Base>, std::byte*, const std::byte*, std::size_t>;
  copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

}  // namespace rueda::kernels
