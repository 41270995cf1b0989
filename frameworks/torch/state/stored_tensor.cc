// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/state/stored_tensor.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 16> kStoredTypes = {
    {{"F64", at::kDouble},
     {"F32", at::kFloat},
     {"F16", at::kHalf},
     {"BF16", at::kBFloat16},
     {"C64", at::kComplexFloat},
     {"I64", at::kLong},
     {"I32", at::kInt},
     {"I16", at::kShort},
     {"I8", at::kChar},
     {"U8", at::kByte},
     {"U16", at::kUInt16},
     {"U32", at::kUInt32},
     {"U64", at::kUInt64},
     {"BOOL", at::kBool},
     {"F8_E4M3", at::kFloat8_e4m3fn},
     {"F8_E5M2", at::kFloat8_e5m2}}};

}  // namespace

std::string_view stored_name(at::ScalarType type) {
  for (const auto& [name, each] : kStoredTypes) {
    if (each == type) return name;
  }
  return {};
}

SafetensorEntry stored_entry(const std::string& name, const at::Tensor& tensor) {
  return {.name = name,
          .dtype = std::string(stored_name(tensor.scalar_type())),
          .shape = tensor.sizes().vec(),
          .data = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

at::Tensor tensor_of(const SafetensorEntry& entry) {
  for (const auto& [name, type] : kStoredTypes) {
    if (name != entry.dtype) continue;
    // A bool of another value than 0 and 1 is undefined.
    at::Tensor tensor = at::empty(entry.shape, type == at::kBool ? at::kByte : type);
    if (!entry.data.empty()) std::memcpy(tensor.mutable_data_ptr(), entry.data.data(), entry.data.size());
    return type == at::kBool ? tensor.ne(0) : tensor;
  }
  refuse(
      fmt::format("the tensor '{}' has the type {}, which LibTorch does not have", entry.name, entry.dtype));
}

}  // namespace rueda
