// SPDX-License-Identifier: Apache-2.0
// The order of the samples in an epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rueda {

// Returns a permutation of [0, size). It depends on `seed` and `epoch` only, on every machine.
std::vector<std::size_t> permutation(std::size_t size, std::uint64_t seed, std::uint64_t epoch);

}  // namespace rueda
