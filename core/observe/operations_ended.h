// SPDX-License-Identifier: Apache-2.0
// A number that tells of any operation between two looks.
#pragma once

#include <cstdint>

#include "rueda/metrics.h"

namespace rueda {

// How many operations of the rank have ended, well or not.
inline std::uint64_t operations_ended(const MetricsSnapshot& metrics) {
  std::uint64_t ended = 0;
  for (const auto& counts : metrics.operations) ended += counts.completed + counts.failed;
  return ended;
}

}  // namespace rueda
