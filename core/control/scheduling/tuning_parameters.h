// SPDX-License-Identifier: Apache-2.0
// What rank 0 may change while a job runs: how ready tensors are fused, and which way they go.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "core/base/time.h"

namespace rueda {

// Purpose: one choice of everything that can be tuned. A plain value; only rank 0's counts.
struct TuningParameters {
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

  std::int64_t fusion_threshold = 0;  // bytes
  Duration linger{};
  std::int64_t chunk_bytes = 1;  // the messages of rings
  // Plans of at most so many bytes take the first backend that can run them, larger ones the second.
  std::int64_t route_bytes = kUnlimited;

  friend bool operator==(const TuningParameters&, const TuningParameters&) = default;
};

double in_milliseconds(Duration time);

// What is other in `to`, in words: "chunk 1 MiB instead of 256 KiB".
std::string difference(const TuningParameters& from, const TuningParameters& to);

}  // namespace rueda
