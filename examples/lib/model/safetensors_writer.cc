// SPDX-License-Identifier: Apache-2.0
// Writing safetensors files.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "examples/lib/model/safetensors.h"
#include "examples/lib/model/safetensors_header.h"

namespace rueda::examples {
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

// A file under a temporary name, removed again unless it is committed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& final_path)
      : final_path_(final_path),
        path_(final_path.parent_path() /
              fmt::format(".{}.{}.tmp", final_path.filename().string(), ::getpid())),
        file_(std::fopen(path_.c_str(), "wb"), &std::fclose) {
    if (file_ == nullptr) fail(errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    if (!committed_) std::filesystem::remove(path_, ignored);
  }

  void write(const void* data, std::size_t size) {
    if (size > 0 && std::fwrite(data, 1, size, file_.get()) != size) fail(errno);
  }

  // On disk before it takes the final name, so that a crash leaves either the old file or the new one.
  void commit() {
    if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0) fail(errno);
    if (std::fclose(file_.release()) != 0) fail(errno);
    std::error_code error;
    std::filesystem::rename(path_, final_path_, error);
    if (error) fail(error.value());
    committed_ = true;
  }

 private:
  [[noreturn]] void fail(int error) const {
    throw std::runtime_error(
        fmt::format("cannot write {}: {}", final_path_.string(), std::generic_category().message(error)));
  }

  std::filesystem::path final_path_;
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  bool committed_ = false;
};

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorEntry> entries,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const SafetensorEntry*> ordered;
  for (const SafetensorEntry& entry : entries) {
    check_entry(path.string(), entry);
    ordered.push_back(&entry);
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const SafetensorEntry* a, const SafetensorEntry* b) {
    return safetensors_item_size(a->dtype) > safetensors_item_size(b->dtype);
  });
  std::vector<std::string_view> names;
  for (const SafetensorEntry* entry : ordered) names.push_back(entry->name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw std::runtime_error(
        fmt::format("cannot write {}: tensor \"{}\" was given twice", path.string(), *twice));

  const std::string header = make_header(path.string(), ordered, metadata);
  TemporaryFile file(path);
  file.write(header.data(), header.size());
  for (const SafetensorEntry* entry : ordered) file.write(entry->data.data(), entry->data.size());
  file.commit();
}

}  // namespace rueda::examples
