// SPDX-License-Identifier: Apache-2.0
// Reading and writing safetensors files.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files/safetensors.h"
#include "examples/lib/data/files/mapped_file.h"

namespace rueda::examples {

// A safetensors file mapped into memory and checked in full when opened. The entries point into the mapping,
// so they live as long as this object (moving it keeps them). Any thread; reading is safe from several.
class SafetensorsFile {
 public:
  // Throws std::runtime_error naming the file and its fault.
  static SafetensorsFile open(const std::filesystem::path& path);

  // In the order of their bytes in the file.
  const std::vector<SafetensorEntry>& entries() const { return entries_; }
  const SafetensorEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;

  MappedFile file_;
  std::vector<SafetensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Writes a temporary file beside `path`, then renames it, so that a reader never sees half a file. Entries
// with wider elements come first, which keeps every tensor aligned. Throws std::runtime_error.
void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorEntry> entries,
                       const std::map<std::string, std::string>& metadata);

}  // namespace rueda::examples
