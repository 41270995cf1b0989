// SPDX-License-Identifier: Apache-2.0
// Which elements of a run of float32 travel where not all do: those of largest magnitude. Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace rueda {

// An element that travels.
struct Picked {
  std::uint32_t index;  // in its run
  float value;
};

// A run is no longer, so that looking through it takes a few milliseconds.
inline constexpr std::int64_t kLongestRun = std::int64_t{1} << 18;

// How many of so many elements travel: the share of them, rounded up.
std::int64_t picked_of(double share, std::int64_t elements);

// Moves the elements of largest magnitude out of `values` into `picked`, as many as it has room for; of equal
// ones the first. `picked` is in the order of the indices; moved elements become 0 in `values`. An element
// that is not finite counts as the largest. If such an element is not picked it becomes 0 as well, or it
// would come back later. Cost: four passes, whatever the share.
void pick_largest(std::span<float> values, std::span<Picked> picked);

// Adds each to the sum at its index. False, at the first that has none there.
bool add_picked(std::span<float> sums, std::span<const Picked> picked);

}  // namespace rueda
