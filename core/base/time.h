// SPDX-License-Identifier: Apache-2.0
// Points in time and how far apart they are, in one clock everywhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace rueda {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

inline Time clock_now() { return std::chrono::steady_clock::now(); }

// This machine's monotonic clock, which all its processes share.
inline std::int64_t monotonic_ns(Time at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}
inline std::int64_t monotonic_ns() { return monotonic_ns(clock_now()); }

// Of both that are there.
inline std::optional<Time> earlier(std::optional<Time> a, std::optional<Time> b) {
  if (!a || !b) return a ? a : b;
  return *a < *b ? a : b;
}

// Settings and messages give times in seconds.
inline Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace rueda
