// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/safetensors.h"

#include <algorithm>
#include <utility>

#include "core/base/files/whole_file.h"
#include "examples/lib/data/files/json_file.h"

namespace rueda::examples {

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.file_ = MappedFile(path);
  const std::span<const std::byte> bytes = file.file_.bytes();
  refuse_lfs_pointer(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  Safetensors contents = parse_safetensors(path.string(), bytes);
  file.entries_ = std::move(contents.entries);
  file.metadata_ = std::move(contents.metadata);
  return file;
}

const SafetensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorEntry> entries,
                       const std::map<std::string, std::string>& metadata) {
  WholeFile file(path);
  format_safetensors(path.string(), entries, metadata,
                     [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace rueda::examples
