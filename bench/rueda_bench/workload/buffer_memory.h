// SPDX-License-Identifier: Apache-2.0
// The memory for the tensors of a measurement.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>

namespace rueda::bench {

// window: where the ranks of a host work on each other's tensors in place.
enum class MemoryKind { ordinary, window };

inline const char* to_string(MemoryKind kind) { return kind == MemoryKind::window ? "window" : "ordinary"; }

using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

// As a framework's allocator gives it: at the start of a cache line.
inline std::shared_ptr<std::byte> ordinary_memory(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  void* memory = std::aligned_alloc(kLine, (bytes + kLine - 1) / kLine * kLine);
  if (memory == nullptr) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace rueda::bench
