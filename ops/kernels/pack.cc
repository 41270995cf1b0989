// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels/pack.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/kernels/level.h"
#include "ops/kernels/line.h"

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

// A line at a time, each asked for some lines before.
template <class Level>
struct CopyOutBody {
  static constexpr std::size_t kAheadBytes = 512;

  RUEDA_INLINE void run(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::size_t done = 0;
    for (; done + kLineBytes <= bytes; done += kLineBytes) line(to + done, from + done);
    std::memcpy(to + done, from + done, bytes - done);
  }
  RUEDA_INLINE void line(std::byte* to, const std::byte* from) {
    fetch_to_write(from + kAheadBytes);
    for (std::size_t at = 0; at < kLineBytes; at += OfLines<Level>::kVectorBytes)
      CopyBody<OfLines<Level>>::copy_vector(to + at, from + at);
  }
};

template <class Level>
struct TakeOutBody {
  RUEDA_INLINE void run(std::byte* to, std::byte* from, std::size_t bytes) {
    std::size_t done = 0;
    for (; done + kLineBytes <= bytes; done += kLineBytes) {
      CopyOutBody<Level>::line(to + done, from + done);
      std::uint64_t word = 0;
      std::memcpy(&word, from + done, sizeof word);
      asm volatile("" : "+r"(word));  // for the compiler another value, which has to be stored
      std::memcpy(from + done, &word, sizeof word);
    }
    std::memcpy(to + done, from + done, bytes - done);
  }
};

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

constexpr std::int64_t kLine = kLineBytes;

}  // namespace

Packing::Layout Packing::merged(const Shape& shape, const Strides& strides, std::int64_t element) {
  if (is_contiguous(shape, strides)) return {{element_count(shape)}, {element}};
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

Packing Packing::pack(void* to, const ConstTensorView& from, std::int64_t piece_bytes) {
  const auto element = static_cast<std::int64_t>(size_of(from.dtype));
  return {static_cast<std::byte*>(to),
          static_cast<const std::byte*>(from.data),
          true,
          merged(from.shape, from.strides, element),
          element,
          piece_bytes};
}

Packing Packing::unpack(const TensorView& to, const void* from, std::int64_t piece_bytes) {
  const auto element = static_cast<std::int64_t>(size_of(to.dtype));
  return {static_cast<std::byte*>(to.data),
          static_cast<const std::byte*>(from),
          false,
          merged(to.shape, to.strides, element),
          element,
          piece_bytes};
}

// Strided rows are cut into columns, all rows of which are copied before the next column: their lines in the
// tensor are still in cache when the neighbouring row needs them.
Packing::Packing(std::byte* to, const std::byte* from, bool packs, Layout layout, std::int64_t element,
                 std::int64_t piece_bytes)
    : to_(to), from_(from), packs_(packs), layout_(std::move(layout)), element_(element) {
  const std::int64_t row = row_elements(), piece = std::max<std::int64_t>(piece_bytes / element, 1);
  if (element_count(layout_.shape) == 0) {
    column_ = row;
    return;
  }
  rows_ = element_count(layout_.shape) / row;
  const bool strided = layout_.strides.back() != element_;
  const std::int64_t wanted = strided ? std::max(piece / rows_, kLine / element_) : piece;
  piece_columns_ = std::min(row, wanted);
  piece_rows_ = std::clamp<std::int64_t>(piece / piece_columns_, 1, rows_);
}

std::int64_t Packing::advance() {
  if (done()) return 0;
  const std::int64_t row = row_elements(), stride = layout_.strides.back();
  const std::int64_t rows = std::min(piece_rows_, rows_ - row_);
  const std::int64_t end = std::min(column_ + piece_columns_, row);
  const std::int64_t bytes = rows * (end - column_) * element_;
  const std::int64_t width = stride == element_ ? end - column_ : kLine / element_;
  for (std::int64_t begin = column_; begin < end; begin += width) {
    for_each_row(row_, rows, [&](std::int64_t offset, std::int64_t number) {
      copy(offset + begin * stride, (number * row + begin) * element_, std::min(width, end - begin));
    });
  }
  row_ += rows;
  if (row_ == rows_) {
    row_ = 0;
    column_ = end;
  }
  return bytes;
}

void Packing::copy(std::int64_t in_tensor, std::int64_t in_packed, std::int64_t count) const {
  const std::int64_t stride = layout_.strides.back();
  if (packs_) {
    copy_strided(to_ + in_packed, element_, from_ + in_tensor, stride, count, element_);
  } else {
    copy_strided(to_ + in_tensor, stride, from_ + in_packed, element_, count, element_);
  }
}

template <class Visit>
void Packing::for_each_row(std::int64_t first, std::int64_t count, Visit visit) const {
  const std::size_t outer = layout_.shape.size() - 1;
  Shape index(outer, 0);
  std::int64_t offset = 0;
  for (std::int64_t d = static_cast<std::int64_t>(outer) - 1, rest = first; d >= 0; --d) {
    index[d] = rest % layout_.shape[d];
    rest /= layout_.shape[d];
    offset += index[d] * layout_.strides[d];
  }
  for (std::int64_t number = first;; ++number) {
    visit(offset, number);
    if (number + 1 == first + count) return;
    for (std::size_t d = outer; d-- > 0;) {
      offset += layout_.strides[d];
      if (++index[d] < layout_.shape[d]) break;
      offset -= layout_.strides[d] * layout_.shape[d];
      index[d] = 0;
    }
  }
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kShort = 2048;  // memcpy takes no `rep movsb` up to here
  if (bytes == 0) return;
  if (bytes <= kShort) {
    std::memcpy(to, from, bytes);
    return;
  }
  static const auto copy = widest<CopyBody, std::byte*, const std::byte*, std::size_t>();
  copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

void copy_streamed(void* to, const void* from, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t in_line = reinterpret_cast<std::uintptr_t>(target) % kLineBytes;
  const std::size_t head = in_line == 0 ? 0 : std::min(kLineBytes - in_line, bytes);
  std::size_t done = head;
  for (; done + kLineBytes <= bytes; done += kLineBytes) stream_line(target + done, source + done);
  copy_bytes(target, source, head);
  copy_bytes(target + done, source + done, bytes - done);
}

void copy_out(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  static const auto copy = widest<CopyOutBody, std::byte*, const std::byte*, std::size_t>();
  copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

void take_out(void* to, void* from, std::size_t bytes) {
  if (bytes == 0) return;
  static const auto take = widest<TakeOutBody, std::byte*, std::byte*, std::size_t>();
  take(static_cast<std::byte*>(to), static_cast<std::byte*>(from), bytes);
}

}  // namespace rueda::kernels
