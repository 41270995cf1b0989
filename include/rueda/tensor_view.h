// SPDX-License-Identifier: Apache-2.0
// A tensor as operations see it: memory that somebody else owns, with a type and a layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rueda/shape.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: names memory; owns nothing. The owner keeps it alive until the operation on it has completed.
// An empty `strides` means row-major contiguous. `data` may be null only when there are no elements.
struct TensorView {
  void* data = nullptr;                // the first element
  DataType dtype = DataType::float32;  // of each element
  Shape shape;                         // elements in each dimension
  Strides strides;                     // elements from one to the next in each dimension

  std::int64_t elements() const { return element_count(shape); }  // of all dimensions
  // Of the elements alone, without gaps between them.
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  bool contiguous() const;  // row-major and without gaps
};

// The same, for memory that an operation only reads.
struct ConstTensorView {
  // As of a TensorView.
  const void* data = nullptr;
  DataType dtype = DataType::float32;
  Shape shape;
  Strides strides;

  // Of memory, or of what may also be written.
  ConstTensorView() = default;
  ConstTensorView(const void* data, DataType dtype, Shape shape, Strides strides = {})
      : data(data), dtype(dtype), shape(std::move(shape)), strides(std::move(strides)) {}
  ConstTensorView(const TensorView& view)  // NOLINT(google-explicit-constructor): reading what may be written
      : ConstTensorView(view.data, view.dtype, view.shape, view.strides) {}

  // As of a TensorView.
  std::int64_t elements() const { return element_count(shape); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  bool contiguous() const;
};

// Whether walking `shape` in row-major order by `strides` (empty: contiguous) visits consecutive elements.
bool is_contiguous(const Shape& shape, const Strides& strides);

// Bytes of a contiguous tensor; nothing if a dimension is negative or the number overflows.
std::optional<std::int64_t> checked_byte_count(const Shape& shape, DataType dtype);

// The DataType of a C++ type, named as the standard library names such traits.
// NOLINTBEGIN(readability-identifier-naming)
template <class T>
inline constexpr DataType data_type_of = [] {
  static_assert(sizeof(T) == 0, "not an element type");
  return DataType{};
}();
template <>
inline constexpr DataType data_type_of<std::uint8_t> = DataType::uint8;
template <>
inline constexpr DataType data_type_of<std::int8_t> = DataType::int8;
template <>
inline constexpr DataType data_type_of<std::int16_t> = DataType::int16;
template <>
inline constexpr DataType data_type_of<std::int32_t> = DataType::int32;
template <>
inline constexpr DataType data_type_of<std::int64_t> = DataType::int64;
template <>
inline constexpr DataType data_type_of<float> = DataType::float32;
template <>
inline constexpr DataType data_type_of<double> = DataType::float64;
template <>
inline constexpr DataType data_type_of<bool> = DataType::boolean;
// NOLINTEND(readability-identifier-naming)

// A one-dimensional contiguous view of `values`; its shape is {values.size()}. The values must outlive it.
template <class T>
TensorView view(std::span<T> values) {
  return {values.data(), data_type_of<T>, {static_cast<std::int64_t>(values.size())}, {}};
}
template <class T>
TensorView view(std::vector<T>& values) {
  return view(std::span<T>(values));
}

}  // namespace rueda
