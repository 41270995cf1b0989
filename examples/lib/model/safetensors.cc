// SPDX-License-Identifier: Apache-2.0
// Mapping a safetensors file into memory.
#include "examples/lib/model/safetensors.h"

#include <algorithm>
#include <utility>

#include "examples/lib/data/files/json_file.h"
#include "examples/lib/model/safetensors_header.h"

namespace rueda::examples {

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.file_ = MappedFile(path);
  const std::span<const std::byte> bytes = file.file_.bytes();
  refuse_lfs_pointer(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  SafetensorsHeader header = parse_safetensors(path.string(), bytes);
  file.entries_ = std::move(header.entries);
  file.metadata_ = std::move(header.metadata);
  return file;
}

const SafetensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

}  // namespace rueda::examples
