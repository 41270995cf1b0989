// SPDX-License-Identifier: Apache-2.0
// Memory of another process, mapped into this one.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "core/base/bytes.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: a file in memory that another process has handed over, as core's sealed_file() makes one. The
// process may have sent any descriptor: only a file of exactly this size that cannot shrink is mapped. A
// value that owns the mapping.
class SealedMemory {
 public:
  enum class Access { read, write };

  // Nothing where `file` is no such file.
  static std::optional<SealedMemory> map(const Descriptor& file, std::size_t bytes,
                                         Access access = Access::read);
  SealedMemory(SealedMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  SealedMemory& operator=(SealedMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SealedMemory();

  ConstBytes bytes() const { return {static_cast<const std::byte*>(memory_), bytes_}; }
  // With Access::write.
  void* data() { return memory_; }

 private:
  SealedMemory(void* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

  void* memory_;
  std::size_t bytes_;
};

}  // namespace rueda
