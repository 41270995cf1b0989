// SPDX-License-Identifier: Apache-2.0
// Which elements of a run of float32 travel where not all do: those of largest magnitude. Pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace rueda {

// An element that travels.
struct Picked {
  std::uint32_t place;  // in its run
  float value;
};

// A run is no longer, so that looking through it takes a few milliseconds.
inline constexpr std::int64_t kLongestRun = std::int64_t{1} << 18;

// How many of so many elements travel: the share of them, rounded up.
std::int64_t picked_of(double share, std::int64_t elements);

// Takes as many elements out of `values` as `picked` has room for, those of largest magnitude, of equal ones
// the first; they stand in it in the order of their places, and are 0 in `values` from then on. What is not
// finite is larger than all else, and where it is not picked it becomes 0 as well: it would come back later,
// when nobody expects it. Cost: four passes, whatever the share.
void pick_largest(std::span<float> values, std::span<Picked> picked);

// Adds each to the sum in its place. False, at the first that has none there.
bool add_picked(std::span<float> sums, std::span<const Picked> picked);

}  // namespace rueda
