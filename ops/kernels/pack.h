// SPDX-License-Identifier: Apache-2.0
// Copies between a tensor of any strides and contiguous memory, in logical (row-major) order.
#pragma once

#include "rueda/tensor_view.h"

namespace rueda::kernels {

// About as much as one step of a Work may copy: a fraction of a millisecond, some milliseconds at worst.
inline constexpr std::int64_t kPieceBytes = 1 << 20;

// Purpose: one such copy, done in pieces, so that the background thread is never away for long. Belongs to a
// Work.
class Packing {
 public:
  Packing() = default;  // nothing to copy

  // The contiguous side holds view.bytes() bytes and does not overlap the tensor. Strides are not negative;
  // `from` may have strides of 0 (an expanded tensor).
  static Packing pack(void* to, const ConstTensorView& from, std::int64_t piece_bytes = kPieceBytes);
  static Packing unpack(const TensorView& to, const void* from, std::int64_t piece_bytes = kPieceBytes);

  // Copies the next piece. Returns its bytes: 0 when all had been copied before.
  std::int64_t advance();
  bool done() const { return column_ >= row_elements(); }

 private:
  // Dimensions of one element are dropped, neighbours merged where one continues the other: at least one
  // dimension is left, the last of which is called a row.
  struct Layout {
    Shape shape;
    Strides strides;  // bytes
  };
  static Layout merged(const Shape& shape, const Strides& strides, std::int64_t element);

  Packing(std::byte* to, const std::byte* from, bool packs, Layout layout, std::int64_t element,
          std::int64_t piece_bytes);
  std::int64_t row_elements() const { return layout_.shape.empty() ? 0 : layout_.shape.back(); }
  void copy(std::int64_t in_tensor, std::int64_t in_packed, std::int64_t count) const;
  // Calls visit(byte offset in the tensor, number of the row) for `count` rows from number `first` on.
  template <class Visit>
  void for_each_row(std::int64_t first, std::int64_t count, Visit visit) const;

  std::byte* to_ = nullptr;
  const std::byte* from_ = nullptr;
  bool packs_ = true;
  Layout layout_;
  std::int64_t element_ = 1;        // bytes
  std::int64_t rows_ = 0;           // in all
  std::int64_t piece_rows_ = 0;     // a piece: so many rows ...
  std::int64_t piece_columns_ = 0;  // ... of so many elements
  std::int64_t row_ = 0;            // where the next piece begins
  std::int64_t column_ = 0;
};

// Contiguous copy by vector loops, without overlap: memcpy of more than some KiB becomes `rep movsb`, which
// is slow on lines another core holds.
void copy_bytes(void* to, const void* from, std::size_t bytes);
// The same past the caches: to memory that others will read, and that this core would have to get from them
// first. In its place among other stores only after end_of_stream() (line.h).
void copy_streamed(void* to, const void* from, std::size_t bytes);
// The same out of memory that another core wrote and that this one, or another, will write next: its lines
// are got as for writing.
void copy_out(void* to, const void* from, std::size_t bytes);
// The same out of memory that this core alone reads before the other writes it again. The values read are
// stored back: a line that was fetched for writing and not written is slow to get back.
void take_out(void* to, void* from, std::size_t bytes);

}  // namespace rueda::kernels
