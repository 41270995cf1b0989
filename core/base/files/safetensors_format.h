// SPDX-License-Identifier: Apache-2.0
// Limits of the safetensors format, for its reader and its writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rueda {

inline constexpr std::size_t kSafetensorsLengthBytes = 8;                // the header's length, little endian
inline constexpr std::size_t kMostSafetensorsHeaderBytes = 100'000'000;  // the format's own limit

// Returns numel * item size. Returns nullopt if a dimension is negative or the product does not fit.
std::optional<std::size_t> safetensors_byte_size(std::span<const std::int64_t> shape, std::size_t item_size);

}  // namespace rueda
