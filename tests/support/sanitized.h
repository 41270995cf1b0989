// SPDX-License-Identifier: Apache-2.0
// Sizes of tests, smaller where a sanitizer makes each step several times as long.
#pragma once

#include <cstdlib>
#include <string_view>

namespace rueda {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// `few` under a sanitizer, else `usual`.
template <class T>
constexpr T sanitized(T few, T usual) {
  return kSanitized ? few : usual;
}

// Whether ThreadSanitizer watches. A race does not depend on the type of elements.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitized = true;
#else
constexpr bool kThreadSanitized = false;
#endif

// Whether this run tests `part` in full. RUEDA_FULL_TESTS names the parts of such a run, or `all`; `./dev test` sets it.
inline bool in_full(std::string_view part) {
  const char* value = std::getenv("RUEDA_FULL_TESTS");
  const std::string_view parts = value == nullptr ? "" : value;
  return parts == "all" || parts.find(part) != std::string_view::npos;
}

}  // namespace rueda
