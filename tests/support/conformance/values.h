// SPDX-License-Identifier: Apache-2.0
// Elements of any dtype as doubles, written plainly: what results are compared with.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "rueda/tensor_view.h"

namespace rueda {

inline float bfloat16_to_float(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

inline std::uint16_t float_to_bfloat16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);  // ties to even; no NaN here
}

template <class T>
double load_as(const void* data, std::int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + i * static_cast<std::int64_t>(sizeof value),
              sizeof value);
  return static_cast<double>(value);
}

template <class T>
void store_as(void* data, std::int64_t i, T value) {
  std::memcpy(static_cast<std::byte*>(data) + i * static_cast<std::int64_t>(sizeof value), &value,
              sizeof value);
}

inline double value_at(DataType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DataType::uint8: return load_as<std::uint8_t>(data, i);
    case DataType::int8: return load_as<std::int8_t>(data, i);
    case DataType::int16: return load_as<std::int16_t>(data, i);
    case DataType::int32: return load_as<std::int32_t>(data, i);
    case DataType::int64: return load_as<std::int64_t>(data, i);
    case DataType::float16: return static_cast<float>(load_as<_Float16>(data, i));
    case DataType::bfloat16:
      return bfloat16_to_float(static_cast<std::uint16_t>(load_as<std::uint16_t>(data, i)));
    case DataType::float32: return load_as<float>(data, i);
    case DataType::float64: return load_as<double>(data, i);
    case DataType::boolean: return load_as<std::uint8_t>(data, i) != 0 ? 1.0 : 0.0;
  }
  return 0;
}

inline void set_value(DataType dtype, void* data, std::int64_t i, double value) {
  switch (dtype) {
    case DataType::uint8: return store_as(data, i, static_cast<std::uint8_t>(value));
    case DataType::int8: return store_as(data, i, static_cast<std::int8_t>(value));
    case DataType::int16: return store_as(data, i, static_cast<std::int16_t>(value));
    case DataType::int32: return store_as(data, i, static_cast<std::int32_t>(value));
    case DataType::int64: return store_as(data, i, static_cast<std::int64_t>(value));
    case DataType::float16: return store_as(data, i, static_cast<_Float16>(value));
    case DataType::bfloat16: return store_as(data, i, float_to_bfloat16(static_cast<float>(value)));
    case DataType::float32: return store_as(data, i, static_cast<float>(value));
    case DataType::float64: return store_as(data, i, value);
    case DataType::boolean: return store_as(data, i, static_cast<std::uint8_t>(value != 0));
  }
}

// How far a result that was rounded once may be from the true one, relative.
inline double relative_tolerance(DataType dtype) {
  switch (dtype) {
    case DataType::float16: return 1.0 / 1024;
    case DataType::bfloat16: return 1.0 / 128;
    case DataType::float32: return 1e-6;
    case DataType::float64: return 1e-14;
    default: return 0;
  }
}

// Purpose: a tensor that owns its memory, of any dtype and shape, contiguous or with every stride doubled.
class TestTensor {
 public:
  TestTensor(DataType dtype, Shape shape, bool strided = false) : strided_(strided) {
    view_.dtype = dtype;
    view_.shape = std::move(shape);
    step_ = strided ? 2 : 1;
    memory_.assign(static_cast<std::size_t>(view_.elements() * step_) * size_of(dtype) + 1, std::byte{0x5a});
    view_.data = memory_.data();
    if (strided) {
      view_.strides = contiguous_strides(view_.shape);
      for (std::int64_t& stride : view_.strides) stride *= step_;
    }
  }
  const TensorView& view() const { return view_; }
  std::int64_t elements() const { return view_.elements(); }
  double get(std::int64_t i) const { return value_at(view_.dtype, view_.data, i * step_); }
  void set(std::int64_t i, double value) { set_value(view_.dtype, view_.data, i * step_, value); }
  // Memory between the elements of a strided tensor, which nobody may touch.
  bool gaps_untouched() const {
    const std::size_t size = size_of(view_.dtype);
    for (std::size_t i = 0; strided_ && i + size <= memory_.size() - 1; i += size) {
      if ((i / size) % 2 == 1 && memory_[i] != std::byte{0x5a}) return false;
    }
    return memory_.back() == std::byte{0x5a};
  }

 private:
  bool strided_;
  std::int64_t step_ = 1;
  std::vector<std::byte> memory_;
  TensorView view_;
};

}  // namespace rueda
