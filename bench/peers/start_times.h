// SPDX-License-Identifier: Apache-2.0
// Times of a rank, for start.py.
#pragma once

#include <chrono>
#include <cstdio>

namespace rueda::bench {

// A line "WORD NANOSECONDS", by the clock that all processes of a machine share.
inline void tell_time(const char* word) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf("%s %lld\n", word,
              static_cast<long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
  std::fflush(stdout);
}

}  // namespace rueda::bench
