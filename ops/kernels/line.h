// SPDX-License-Identifier: Apache-2.0
// Lines of cache that another core holds.
#pragma once

#include <cstddef>

namespace rueda::kernels {

inline constexpr std::size_t kLineBytes = 64;

// Begins to get a line for writing: it moves here whole, and storing to it has not to ask again. Of any
// address. Not __builtin_prefetch(line, 1): without a target attribute that asks for reading. Processors that
// do not know the instruction do nothing.
inline __attribute__((always_inline)) void fetch_to_write(const void* line) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
}

}  // namespace rueda::kernels
