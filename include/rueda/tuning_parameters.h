// SPDX-License-Identifier: Apache-2.0
// The parameters that rank 0 may change while a job runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace rueda {

// Purpose: one choice of everything that the autotuner tunes: how ready tensors are fused, and which backend
// they take. A plain value; only rank 0's counts.
struct TuningParameters {
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();  // bytes

  std::int64_t fusion_threshold = 0;             // bytes of a fused buffer, at most
  std::chrono::steady_clock::duration linger{};  // how long a ready tensor waits for more tensors, at most
  std::int64_t chunk_bytes = 1;                  // of a message of a ring algorithm, at most
  // Plans of at most so many bytes take the first backend that can run them, larger ones the second.
  std::int64_t route_bytes = kUnlimited;

  // Whether all four are the same.
  friend bool operator==(const TuningParameters&, const TuningParameters&) = default;
};

}  // namespace rueda
