// SPDX-License-Identifier: Apache-2.0
// The safetensors format: a length, a JSON header, then the bytes of the tensors. It holds data only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rueda {

struct SafetensorEntry {
  std::string name;
  std::string dtype;  // in the format's spelling: F32, BF16, I64, ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

// The contents of a file. Entries are in the order of their bytes, and point into the bytes of the file.
struct Safetensors {
  std::vector<SafetensorEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Returns the bytes of one element of a dtype. Returns 0 for an unknown dtype.
std::size_t safetensors_item_size(std::string_view dtype);

// Reads the whole contents of a file. `file` names it in errors. Every length, offset, dtype and shape is
// checked. Throws std::runtime_error.
Safetensors parse_safetensors(const std::string& file, std::span<const std::byte> bytes);

// Gives the bytes of a file to `write`, piece by piece. Entries with wider elements come first, so every
// tensor is aligned. `file` names the file in errors. Throws std::runtime_error before the first piece.
void format_safetensors(const std::string& file, std::span<const SafetensorEntry> entries,
                        const std::map<std::string, std::string>& metadata,
                        const std::function<void(std::span<const std::byte>)>& write);

}  // namespace rueda
