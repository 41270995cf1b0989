// SPDX-License-Identifier: Apache-2.0
// Plain host memory, aligned to a cache line and not initialised.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>

#include "core/base/bytes.h"

namespace rueda {

// Purpose: owns a block of memory. Move-only value.
class HostBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;  // a line of cache
  // So many bytes, and those behind them in the last line.
  static constexpr std::size_t whole_lines(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  HostBuffer() = default;
  // Throws std::bad_alloc.
  explicit HostBuffer(std::size_t bytes) : size_(bytes) {
    if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - kAlignment) throw std::bad_alloc();
    const std::size_t rounded = whole_lines(bytes);
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded)));
    if (!data_) throw std::bad_alloc();
  }

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  MutableBytes bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace rueda
