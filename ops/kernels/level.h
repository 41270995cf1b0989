// SPDX-License-Identifier: Apache-2.0
// The same loop compiled for several instruction sets.
//
// A body is a struct with a static, always inlined `run`. Level::run<Body>(...) is a function compiled for
// that level, into which the body is inlined, so that the compiler vectorises it for the level. No file is
// compiled with wider instructions as a whole: inline functions of the standard library would then leak them
// into the rest of the program.
#pragma once

#include <cpuid.h>

#include <cstddef>
#include <type_traits>

#define RUEDA_INLINE static inline __attribute__((always_inline))
#define RUEDA_TARGET_AVX2 __attribute__((target("avx2,f16c")))
#define RUEDA_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))

namespace rueda::kernels {

struct Base {
  static constexpr const char* kName = "base";
  static constexpr std::size_t kVectorBytes = 16;
  static constexpr bool kHasF16c = false;
  static bool available() { return true; }
  template <class Body, class... Arguments>
  static void run(Arguments... arguments) {
    Body::run(arguments...);
  }
};

// Asked of the processor itself: __builtin_cpu_supports does not know this name in every compiler.
inline bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

struct Avx2 {
  static constexpr const char* kName = "avx2";
  static constexpr std::size_t kVectorBytes = 32;
  static constexpr bool kHasF16c = true;
  static bool available() { return __builtin_cpu_supports("avx2") && has_f16c(); }
  template <class Body, class... Arguments>
  RUEDA_TARGET_AVX2 static void run(Arguments... arguments) {
    Body::run(arguments...);
  }
};

struct Avx512 {
  static constexpr const char* kName = "avx512";
  static constexpr std::size_t kVectorBytes = 64;
  static constexpr bool kHasF16c = true;
  static bool available() {
    return Avx2::available() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  template <class Body, class... Arguments>
  RUEDA_TARGET_AVX512 static void run(Arguments... arguments) {
    Body::run(arguments...);
  }
};

// For loops over lines of other cores: those come no faster into wider vectors, and sometimes slower.
template <class Level>
using OfLines = std::conditional_t<(Level::kVectorBytes > Avx2::kVectorBytes), Avx2, Level>;

// Body<Level>::run at the widest level that this processor has.
template <template <class> class Body, class... Arguments>
auto widest() -> void (*)(Arguments...) {
  if (Avx512::available()) return Avx512::run<Body<Avx512>, Arguments...>;
  if (Avx2::available()) return Avx2::run<Body<Avx2>, Arguments...>;
  return Base::run<Body<Base>, Arguments...>;
}

}  // namespace rueda::kernels
