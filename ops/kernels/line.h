// SPDX-License-Identifier: Apache-2.0
// Lines of cache that another core holds.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

namespace rueda::kernels {

inline constexpr std::size_t kLineBytes = 64;

inline bool begins_line(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kLineBytes == 0;
}

// Begins to get a line for writing: it moves here whole, and storing to it has not to ask again. Of any
// address. Not __builtin_prefetch(line, 1): without a target attribute that asks for reading. Processors that
// do not know the instruction do nothing.
inline __attribute__((always_inline)) void fetch_to_write(const void* line) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
}

// Begins to get a line for reading.
inline __attribute__((always_inline)) void fetch(const void* line) {
  _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T0);
}

// Stores a whole line past the caches, to where a line begins: whoever holds it loses it, and it has not to
// come here first. In its place among other stores only after end_of_stream().
inline __attribute__((always_inline)) void stream_line(void* to, const void* from) {
  for (std::size_t at = 0; at < kLineBytes; at += sizeof(__m128i)) {
    const __m128i part =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(from) + at));
    _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<char*>(to) + at), part);
  }
}

// Before others are told of it. (A flag stored as seq_cst or by a locked instruction orders that, too; one
// stored as release does not.)
inline __attribute__((always_inline)) void end_of_stream() { _mm_sfence(); }

}  // namespace rueda::kernels
