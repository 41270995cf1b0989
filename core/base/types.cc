// SPDX-License-Identifier: Apache-2.0
#include "rueda/types.h"

#include <array>

#include "core/base/operation_traits.h"

namespace rueda {
namespace {

struct DataTypeTraits {
  std::string_view name;
  std::size_t size;
  bool floating_point;
  bool integer;
};

using enum DataType;
constexpr std::array<DataTypeTraits, kDataTypeCount> kDataTypes{{
    {"uint8", 1, false, true},
    {"int8", 1, false, true},
    {"int16", 2, false, true},
    {"int32", 4, false, true},
    {"int64", 8, false, true},
    {"float16", 2, true, false},
    {"bfloat16", 2, true, false},
    {"float32", 4, true, false},
    {"float64", 8, true, false},
    {"bool", 1, false, false},
}};

constexpr std::array<std::string_view, kReduceOpCount> kReduceOps{"sum", "average", "min",
                                                                  "max", "product", "adasum"};

const DataTypeTraits& row(DataType dtype) { return kDataTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DataType dtype) { return row(dtype).size; }
bool is_floating_point(DataType dtype) { return row(dtype).floating_point; }
bool is_integer(DataType dtype) { return row(dtype).integer; }

std::string_view to_string(DataType dtype) { return row(dtype).name; }
std::string_view to_string(ReduceOp op) { return kReduceOps[static_cast<std::size_t>(op)]; }
std::string_view to_string(Operation operation) { return traits(operation).name; }
std::string_view to_string(ReductionOrder order) { return order == ReductionOrder::fixed ? "fixed" : "any"; }
std::string_view to_string(Compression compression) {
  switch (compression) {
    case Compression::fp16: return "fp16";
    case Compression::bf16: return "bf16";
    case Compression::topk: return "topk";
    case Compression::none: break;
  }
  return "none";
}
std::string_view to_string(DeviceKind device) { return device == DeviceKind::cuda ? "cuda" : "host"; }

}  // namespace rueda
