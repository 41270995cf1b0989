// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file, read with every check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/lib/model/safetensors.h"

namespace rueda::examples {

inline constexpr std::size_t kSafetensorsLengthBytes = 8;                // the header's length, little endian
inline constexpr std::size_t kMostSafetensorsHeaderBytes = 100'000'000;  // the format's own limit

struct SafetensorsHeader {
  std::vector<SafetensorEntry> entries;  // in the order of their bytes, pointing into the file's bytes
  std::map<std::string, std::string> metadata;
};

// numel * item size; nullopt if a dimension is negative or the product does not fit.
std::optional<std::size_t> safetensors_byte_size(std::span<const std::int64_t> shape, std::size_t item_size);

// `file` names the file in errors, `bytes` are all of it. Throws std::runtime_error.
SafetensorsHeader parse_safetensors(const std::string& file, std::span<const std::byte> bytes);

}  // namespace rueda::examples
