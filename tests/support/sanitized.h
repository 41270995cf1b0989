// SPDX-License-Identifier: Apache-2.0
// Sizes of tests, smaller where a sanitizer makes each step several times as long.
#pragma once

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

}  // namespace rueda
