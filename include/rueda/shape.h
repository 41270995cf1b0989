// SPDX-License-Identifier: Apache-2.0
// The extent of a tensor in each dimension. Values only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rueda {

// Purpose: a number for each dimension, like a std::vector that needs no allocation for tensors of up to five
// dimensions: each operation holds a few of these. A plain value; empty when it has been moved from.
class Dimensions {
 public:
  // Of so many dimensions, or of these numbers.
  Dimensions() = default;
  explicit Dimensions(std::size_t size, std::int64_t value = 0) { fill(size, value); }
  Dimensions(std::initializer_list<std::int64_t> values) : Dimensions(values.begin(), values.end()) {}
  Dimensions(const std::vector<std::int64_t>& values)  // NOLINT(google-explicit-constructor): the same thing
      : Dimensions(values.begin(), values.end()) {}
  Dimensions(const Dimensions& other) : size_(other.size_), inside_(other.inside_) {
    if (size_ > kInside) outside_ = copy_outside(other, size_);
  }
  Dimensions(Dimensions&& other) noexcept
      : size_(std::exchange(other.size_, 0)), inside_(other.inside_), outside_(std::move(other.outside_)) {}
  Dimensions& operator=(Dimensions other) noexcept {
    size_ = other.size_;
    inside_ = other.inside_;
    outside_ = std::move(other.outside_);
    return *this;
  }
  ~Dimensions() = default;
  // Of those from `begin` to `end`.
  template <std::forward_iterator Iterator>
  Dimensions(Iterator begin, Iterator end) {
    fill(static_cast<std::size_t>(std::distance(begin, end)), 0);
    std::copy(begin, end, data());
  }

  // As of a std::vector.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t* data() { return size_ <= kInside ? inside_.data() : outside_.get(); }
  const std::int64_t* data() const { return size_ <= kInside ? inside_.data() : outside_.get(); }
  auto begin() { return data(); }
  auto end() { return data() + size_; }
  auto begin() const { return data(); }
  auto end() const { return data() + size_; }
  std::int64_t& operator[](std::size_t i) { return data()[i]; }
  const std::int64_t& operator[](std::size_t i) const { return data()[i]; }
  std::int64_t& front() { return *begin(); }
  const std::int64_t& front() const { return *begin(); }
  std::int64_t& back() { return *(end() - 1); }
  const std::int64_t& back() const { return *(end() - 1); }

  // One dimension more, the last.
  void push_back(std::int64_t value) {
    if (size_ >= kInside) outside_ = copy_outside(*this, size_ + 1);
    ++size_;
    back() = value;
  }

  // Whether as many, and the same.
  friend bool operator==(const Dimensions& a, const Dimensions& b) { return std::ranges::equal(a, b); }

 private:
  static constexpr std::size_t kInside = 5;

  void fill(std::size_t size, std::int64_t value) {
    size_ = size;
    if (size <= kInside) return inside_.fill(value);
    outside_ = std::make_unique<std::int64_t[]>(size);
    std::fill_n(outside_.get(), size, value);
  }
  static std::unique_ptr<std::int64_t[]> copy_outside(const Dimensions& from, std::size_t size) {
    auto copy = std::make_unique<std::int64_t[]>(size);
    std::ranges::copy(from, copy.get());
    return copy;
  }

  std::size_t size_ = 0;
  std::array<std::int64_t, kInside> inside_{};
  std::unique_ptr<std::int64_t[]> outside_;  // all of them, where they are more than that
};

using Shape = Dimensions;    // elements in each dimension, the slowest first; empty: a scalar
using Strides = Dimensions;  // in elements

// Number of elements (1 for a scalar's empty shape); nothing if a dimension is negative or the product
// overflows.
std::optional<std::int64_t> checked_element_count(std::span<const std::int64_t> shape);

// The same for a shape that has been checked.
inline std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  return count;
}

// Elements of one row, that is of all dimensions but the first; 1 for a shape of at most one dimension.
std::int64_t row_element_count(std::span<const std::int64_t> shape);

// Of the elements of `shape` laid out row by row, without gaps.
Strides contiguous_strides(std::span<const std::int64_t> shape);

std::string to_string(std::span<const std::int64_t> shape);  // "[2, 3]"

}  // namespace rueda
