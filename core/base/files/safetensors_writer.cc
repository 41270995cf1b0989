// SPDX-License-Identifier: Apache-2.0
// Writing the safetensors format.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/files/safetensors.h"
#include "core/base/files/safetensors_format.h"

namespace rueda {
namespace {

constexpr std::size_t kAlignment = 8;  // of the first tensor in the file

void check_entry(const std::string& file, const SafetensorEntry& entry) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(fmt::format("cannot write tensor \"{}\" to {}: {}", entry.name, file, what));
  };
  if (entry.name == "__metadata__") fail("the format keeps this name for itself");
  const std::size_t item_size = safetensors_item_size(entry.dtype);
  if (item_size == 0) fail(fmt::format("unknown dtype \"{}\"", entry.dtype));
  const auto wanted = safetensors_byte_size(entry.shape, item_size);
  if (!wanted || *wanted != entry.data.size())
    fail(fmt::format("dtype {} and shape [{}] need {} bytes, {} were given", entry.dtype,
                     fmt::join(entry.shape, ", "), wanted ? fmt::to_string(*wanted) : "too many",
                     entry.data.size()));
}

// The length and the header, padded with spaces.
std::string make_header(const std::string& file, std::span<const SafetensorEntry* const> entries,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const SafetensorEntry* entry : entries) {
    const std::size_t end = offset + entry->data.size();
    header[entry->name] = {{"dtype", entry->dtype}, {"shape", entry->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw std::runtime_error(
        fmt::format("cannot write {}: a tensor name or metadata is not valid UTF-8", file));
  }
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  if (text.size() > kMostSafetensorsHeaderBytes)
    throw std::runtime_error(
        fmt::format("cannot write {}: its header would have {} bytes, at most {} are allowed", file,
                    text.size(), kMostSafetensorsHeaderBytes));
  std::string length(kSafetensorsLengthBytes, '\0');
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  return length + text;
}

}  // namespace

void format_safetensors(const std::string& file, std::span<const SafetensorEntry> entries,
                        const std::map<std::string, std::string>& metadata,
                        const std::function<void(std::span<const std::byte>)>& write) {
  std::vector<const SafetensorEntry*> ordered;
  for (const SafetensorEntry& entry : entries) {
    check_entry(file, entry);
    ordered.push_back(&entry);
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const SafetensorEntry* a, const SafetensorEntry* b) {
    return safetensors_item_size(a->dtype) > safetensors_item_size(b->dtype);
  });
  std::vector<std::string_view> names;
  for (const SafetensorEntry* entry : ordered) names.push_back(entry->name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw std::runtime_error(fmt::format("cannot write {}: tensor \"{}\" was given twice", file, *twice));

  const std::string header = make_header(file, ordered, metadata);
  write(std::as_bytes(std::span(header)));
  for (const SafetensorEntry* entry : ordered) write(entry->data);
}

}  // namespace rueda
