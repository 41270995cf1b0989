// SPDX-License-Identifier: Apache-2.0
// The parameters of a checkpoint's folder, in one file or in parts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "examples/lib/model/safetensors.h"

namespace rueda::examples {

// Tensors by the names that the model has for them, without the prefixes of torch's wrappers ("module.",
// "_orig_mod."). The entries point into files mapped into memory, so they live as long as this object (moving
// it keeps them). Any thread; reading is safe from several.
class ModelTensors {
 public:
  // model.safetensors, or without it the parts that model.safetensors.index.json names. Throws
  // std::runtime_error naming the file and the remedy: no such file, but parameters in another format; a part
  // that is missing or outside of the folder; a tensor that is not where the index says, or there twice.
  static ModelTensors open(const std::filesystem::path& folder);
  // Of one file.
  static ModelTensors from_file(const std::filesystem::path& file);

  const std::vector<SafetensorEntry>& entries() const { return entries_; }
  const SafetensorEntry* find(std::string_view name) const;
  // The file that errors name.
  const std::string& origin() const { return origin_; }

 private:
  explicit ModelTensors(std::string origin) : origin_(std::move(origin)) {}
  void add(const std::filesystem::path& file);

  std::string origin_;
  std::vector<SafetensorsFile> files_;
  std::vector<SafetensorEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> indices_;  // of names in entries_
};

}  // namespace rueda::examples
