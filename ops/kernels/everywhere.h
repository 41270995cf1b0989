// SPDX-License-Identifier: Apache-2.0
// The sum of several copies of a vector, stored in the place of each, in one pass.
//
// The copies lie in other cores' caches, and most of the time goes into fetching their lines. So each line is
// asked for once, to be written, a little ahead of its use. Everything is in one loop, as lines asked for in
// bursts wait for each other. Nothing is kept in between. A far line is cheaper to read, and to store past
// the caches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "ops/kernels/arithmetic.h"
#include "ops/kernels/line.h"

namespace rueda::kernels {

template <class Level, class T, class Format, class Scaling, std::size_t kCopies>
struct SumEverywhereBody {
  using Stored = typename Format::Stored;
  using Copies = std::array<const Stored*, kCopies>;
  using Targets = std::array<Stored*, kCopies>;
  static constexpr std::size_t kAheadBytes = 256;
  static constexpr std::size_t kFarAheadBytes = 512;
  static constexpr std::size_t kLine = kLineBytes / sizeof(Stored);

  RUEDA_INLINE void run(const void* const* copies, void* const* targets, std::size_t count, Scale scale,
                        unsigned streamed) {
    Copies from;
    Targets to;
    for (std::size_t k = 0; k < kCopies; ++k) {
      from[k] = static_cast<const Stored*>(copies[k]);
      to[k] = static_cast<Stored*>(targets[k]);
    }
    const std::size_t lines = count / kLine * kLine;
    if (streamed == 0) {
      for (std::size_t i = 0; i < lines; i += kLine) line(from, to, i, scale);
    } else {
      for (std::size_t i = 0; i < lines; i += kLine) far_line(from, to, i, scale, streamed);
      end_of_stream();
    }
    for (std::size_t i = lines; i < count; ++i) {
      const std::array<Stored, 1> one = sums<1>(from, i, scale);
      for (std::size_t k = 0; k < kCopies; ++k) put(to[k] + i, one);
    }
  }

 private:
  RUEDA_INLINE const std::byte* ahead(const Stored* begin, std::size_t bytes) {
    return reinterpret_cast<const std::byte*>(begin) + bytes;
  }

  RUEDA_INLINE void line(const Copies& from, const Targets& to, std::size_t i, Scale scale) {
    for (std::size_t k = 0; k < kCopies; ++k) fetch_to_write(ahead(to[k] + i, kAheadBytes));
    const std::array<Stored, kLine> all = sums<kLine>(from, i, scale);
    for (std::size_t k = 0; k < kCopies; ++k) put(to[k] + i, all);
  }

  RUEDA_INLINE void far_line(const Copies& from, const Targets& to, std::size_t i, Scale scale,
                             unsigned streamed) {
    for (std::size_t k = 0; k < kCopies; ++k) fetch(ahead(from[k] + i, kFarAheadBytes));
    const std::array<Stored, kLine> all = sums<kLine>(from, i, scale);
    for (std::size_t k = 0; k < kCopies; ++k) {
      if ((streamed >> k & 1) != 0) {
        stream_line(to[k] + i, all.data());
      } else {
        put(to[k] + i, all);
      }
    }
  }

  template <std::size_t kSome>
  RUEDA_INLINE std::array<Stored, kSome> sums(const Copies& from, std::size_t begin, Scale scale) {
    std::array<Stored, kSome> sums;
#pragma GCC unroll 1  // or it is unrolled before it can be vectorised
    for (std::size_t i = 0; i < kSome; ++i)
      sums[i] = Format::narrow(Scaling::of(tree<0, kCopies>(from, begin + i), scale));
    return sums;
  }

  // In whole vectors, so that what the loop above has computed stays in registers.
  template <std::size_t kSome>
  RUEDA_INLINE void put(Stored* to, const std::array<Stored, kSome>& sums) {
    constexpr std::size_t kPart = std::min(sizeof sums, Level::kVectorBytes);
    using Part __attribute__((vector_size(kPart))) = char;
    for (std::size_t at = 0; at < sizeof sums; at += kPart) {
      Part part;
      __builtin_memcpy(&part, reinterpret_cast<const char*>(sums.data()) + at, kPart);
      __builtin_memcpy(reinterpret_cast<char*>(to) + at, &part, kPart);
    }
  }

  // As ReductionTree combines them.
  template <std::size_t kFirst, std::size_t kCount>
  RUEDA_INLINE T tree(const Copies& from, std::size_t i) {
    if constexpr (kCount == 1) {
      return Format::widen(from[kFirst][i]);
    } else {
      return Sum::of(tree<kFirst, kCount / 2>(from, i), tree<kFirst + kCount / 2, kCount / 2>(from, i));
    }
  }
};

template <class Level, class T, class Format, std::size_t kCopies>
void sum_everywhere(const void* const* copies, void* const* targets, std::size_t count, Scale scale,
                    unsigned streamed) {
  choose_scaling<T>(scale, [&]<class Scaling>() {
    using Body = SumEverywhereBody<OfLines<Level>, T, Format, Scaling, kCopies>;
    OfLines<Level>::template run<Body>(copies, targets, count, scale, streamed);
  });
}

}  // namespace rueda::kernels
