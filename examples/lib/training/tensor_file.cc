// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tensor_file.h"

#include <fmt/format.h>

#include <stdexcept>

#include "examples/lib/model/safetensors.h"
#include "examples/lib/reporting/run_report.h"
#include "frameworks/torch/state/stored_tensor.h"
#include "rueda/torch/state/stateful.h"

namespace rueda::examples {
void write_tensors(const std::filesystem::path& file,
                   const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  if (file.has_parent_path()) make_folder(file.parent_path());
  std::vector<at::Tensor> kept;
  std::vector<SafetensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.detach().cpu().contiguous());
    const at::Tensor& whole = kept.back();
    if (stored_name(whole.scalar_type()).empty()) {
      throw std::runtime_error(fmt::format("cannot write {}: tensors of type {} are not kept", file.string(),
                                           c10::toString(whole.scalar_type())));
    }
    entries.push_back(stored_entry(name, whole));
  }
  write_safetensors(file, entries, {{"format", "pt"}});
}

std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file) {
  const SafetensorsFile opened = SafetensorsFile::open(file);
  std::map<std::string, at::Tensor> tensors;
  for (const SafetensorEntry& entry : opened.entries()) {
    const std::string failure = failure_of([&] { tensors.emplace(entry.name, tensor_of(entry)); });
    if (!failure.empty()) throw std::runtime_error(fmt::format("{}: {}", file.string(), failure));
  }
  return tensors;
}

}  // namespace rueda::examples
