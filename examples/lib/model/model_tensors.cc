// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/model_tensors.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/files/json_node.h"

namespace rueda::examples {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::size_t kMostIndexBytes = std::size_t{64} << 20;

// Parameters in other formats, and the Python that writes kFile of them.
struct OtherFormat {
  const char* file;
  const char* needs;
  std::string python;
};

std::vector<OtherFormat> other_formats() {
  const std::string from_torch =
      "import glob, torch, safetensors.torch as s; s.save_file({k: v.contiguous().clone() for f in "
      "glob.glob('pytorch_model*.bin') for k, v in torch.load(f, map_location='cpu', "
      "weights_only=True).items()}, 'model.safetensors', {'format': 'pt'})";
  const auto by_transformers = [](const char* flag) {
    return fmt::format(
        "import transformers as t; c = t.AutoConfig.from_pretrained('.'); getattr(t, "
        "c.architectures[0]).from_pretrained('.', {}=True).save_pretrained('.')",
        flag);
  };
  return {{"pytorch_model.bin", "", from_torch},
          {"pytorch_model.bin.index.json", "", from_torch},
          {"tf_model.h5", " with transformers 4 and tensorflow", by_transformers("from_tf")},
          {"flax_model.msgpack", " with transformers 4 and flax", by_transformers("from_flax")}};
}

[[noreturn]] void fail_without_file(const fs::path& folder) {
  for (const OtherFormat& other : other_formats()) {
    if (!fs::exists(folder / other.file)) continue;
    throw std::runtime_error(fmt::format("{} has {} and no {}; write that in the folder{}: python -c \"{}\"",
                                         folder.string(), other.file, kFile, other.needs, other.python));
  }
  throw std::runtime_error(
      fmt::format("cannot open {}: {}", (folder / kFile).string(), std::generic_category().message(ENOENT)));
}

std::string without_wrappers(std::string_view name) {
  constexpr std::array<std::string_view, 2> kWrappers = {"module.", "_orig_mod."};
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!name.starts_with(wrapper)) continue;
      name.remove_prefix(wrapper.size());
      found = true;
    }
  }
  return std::string(name);
}

// The file of each tensor, as the index has it.
std::map<std::string, std::string> read_index(const fs::path& index) {
  const std::string source = index.string();
  const nlohmann::json document = read_json(index, kMostIndexBytes);
  const JsonNode map = JsonNode(source, document).member("weight_map");
  if (!map.value().is_object()) map.fail("an object of tensors and their files is needed");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, value] : map.value().items()) {
    const std::string file = map.member(tensor).text();
    if (file.empty() || file == "." || file == ".." || fs::path(file).filename() != file)
      map.member(tensor).fail(fmt::format("\"{}\" is not the name of a file in the same folder", file));
    files.emplace(tensor, file);
  }
  if (files.empty()) map.fail("no tensor is named");
  return files;
}

}  // namespace

ModelTensors ModelTensors::open(const fs::path& folder) {
  if (fs::exists(folder / kFile)) return from_file(folder / kFile);
  const fs::path index = folder / kIndex;
  if (!fs::exists(index)) fail_without_file(folder);
  const std::map<std::string, std::string> files = read_index(index);
  ModelTensors tensors(index.string());
  std::set<std::string> parts;
  for (const auto& [tensor, file] : files) parts.insert(file);
  for (const std::string& part : parts) {
    if (!fs::exists(folder / part))
      throw std::runtime_error(fmt::format("{} is missing, which {} names as one of {} parts; fetch it too",
                                           (folder / part).string(), index.string(), parts.size()));
    tensors.add(folder / part);
  }
  for (const auto& [tensor, file] : files)
    if (tensors.find(without_wrappers(tensor)) == nullptr)
      throw std::runtime_error(
          fmt::format("{}: the tensor {} is missing, which {} names there; fetch both anew",
                      (folder / file).string(), tensor, index.string()));
  return tensors;
}

ModelTensors ModelTensors::from_file(const fs::path& file) {
  ModelTensors tensors(file.string());
  tensors.add(file);
  return tensors;
}

void ModelTensors::add(const fs::path& file) {
  files_.push_back(SafetensorsFile::open(file));
  for (SafetensorEntry entry : files_.back().entries()) {
    const std::string name = std::exchange(entry.name, without_wrappers(entry.name));
    if (!indices_.emplace(entry.name, entries_.size()).second)
      throw std::runtime_error(fmt::format("{}: the tensor {} is there a second time, as {}; take one out",
                                           file.string(), entry.name, name));
    entries_.push_back(std::move(entry));
  }
}

const SafetensorEntry* ModelTensors::find(std::string_view name) const {
  const auto found = indices_.find(name);
  return found == indices_.end() ? nullptr : &entries_[found->second];
}

}  // namespace rueda::examples
