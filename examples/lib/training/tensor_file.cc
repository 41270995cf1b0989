// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tensor_file.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "examples/lib/model/safetensors.h"
#include "examples/lib/reporting/run_report.h"

namespace rueda::examples {
namespace {

struct StoredType {
  std::string_view name;
  at::ScalarType type;
};

constexpr std::array<StoredType, 8> kStoredTypes = {{{"F32", at::kFloat},
                                                     {"F64", at::kDouble},
                                                     {"BF16", at::kBFloat16},
                                                     {"F16", at::kHalf},
                                                     {"I64", at::kLong},
                                                     {"I32", at::kInt},
                                                     {"U8", at::kByte},
                                                     {"BOOL", at::kBool}}};

std::string_view stored_name(const std::filesystem::path& file, at::ScalarType type) {
  for (const StoredType& each : kStoredTypes) {
    if (each.type == type) return each.name;
  }
  throw std::runtime_error(
      fmt::format("cannot write {}: tensors of type {} are not kept", file.string(), c10::toString(type)));
}

at::ScalarType scalar_type_of(const std::filesystem::path& file, const SafetensorEntry& entry) {
  for (const StoredType& each : kStoredTypes) {
    if (each.name == entry.dtype) return each.type;
  }
  throw std::runtime_error(fmt::format("{}: the tensor {} has type {}, which cannot be read", file.string(),
                                       entry.name, entry.dtype));
}

}  // namespace

void write_tensors(const std::filesystem::path& file,
                   const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  if (file.has_parent_path()) make_folder(file.parent_path());
  std::vector<at::Tensor> kept;
  std::vector<SafetensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.detach().cpu().contiguous());
    const at::Tensor& whole = kept.back();
    entries.push_back({.name = name,
                       .dtype = std::string(stored_name(file, whole.scalar_type())),
                       .shape = whole.sizes().vec(),
                       .data = {static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()}});
  }
  write_safetensors(file, entries, {{"format", "pt"}});
}

std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file) {
  const SafetensorsFile opened = SafetensorsFile::open(file);
  std::map<std::string, at::Tensor> tensors;
  for (const SafetensorEntry& entry : opened.entries()) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(scalar_type_of(file, entry)));
    if (!entry.data.empty()) std::memcpy(tensor.mutable_data_ptr(), entry.data.data(), entry.data.size());
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace rueda::examples
