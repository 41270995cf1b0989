// SPDX-License-Identifier: Apache-2.0
// The common part of tasks with made-up batches (--dummy).
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/lib/training/task.h"

namespace rueda::examples {

inline constexpr std::size_t kDummySamples = 1 << 16;  // in an epoch; each position draws anew

inline std::vector<std::uint64_t> positions_of(std::span<const Sample> samples) {
  std::vector<std::uint64_t> positions;
  for (const Sample& sample : samples) positions.push_back(sample.position);
  return positions;
}

inline std::string dummy_words(std::int64_t columns) {
  return fmt::format("made-up windows of {} tokens: nothing is measured on them", columns);
}

}  // namespace rueda::examples
