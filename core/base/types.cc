// SPDX-License-Identifier: Apache-2.0
#include "core/base/types.h"

#include <array>

namespace rueda {
namespace {

struct DataTypeTraits {
  std::string_view name;
  std::size_t size;
  bool floating_point;
  bool integer;
  DataType accumulator;
};

using enum DataType;
constexpr std::array<DataTypeTraits, kDataTypeCount> kDataTypes{{
    {"uint8", 1, false, true, uint8},
    {"int8", 1, false, true, int8},
    {"int16", 2, false, true, int16},
    {"int32", 4, false, true, int32},
    {"int64", 8, false, true, int64},
    {"float16", 2, true, false, float32},
    {"bfloat16", 2, true, false, float32},
    {"float32", 4, true, false, float32},
    {"float64", 8, true, false, float64},
    {"bool", 1, false, false, boolean},
}};

constexpr std::array<std::string_view, kReduceOpCount> kReduceOps{"sum", "average", "min",
                                                                  "max", "product", "adasum"};

//   name, reduces, fusable, has a root, same shape, ragged, moves data, makes its output
constexpr std::array<OperationTraits, kOperationCount> kOperations{{
    {"allreduce", true, true, false, true, false, true, false},
    {"allgather", false, false, false, false, true, true, true},
    {"broadcast", false, false, true, true, false, true, false},
    {"alltoall", false, false, false, false, true, true, true},
    {"reducescatter", true, false, false, true, false, true, true},
    {"barrier", false, false, false, true, false, true, false},
    {"join", false, false, false, true, false, false, false},
    {"add_process_set", false, false, false, true, false, false, false},
    {"remove_process_set", false, false, true, true, false, false, false},
}};

const DataTypeTraits& row(DataType dtype) { return kDataTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

const OperationTraits& traits(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}

std::size_t size_of(DataType dtype) { return row(dtype).size; }
bool is_floating_point(DataType dtype) { return row(dtype).floating_point; }
bool is_integer(DataType dtype) { return row(dtype).integer; }
bool can_reduce(Operation operation, DataType dtype, ReduceOp op) {
  if (op == ReduceOp::adasum) return operation == Operation::allreduce && is_floating_point(dtype);
  return op != ReduceOp::average || dtype != DataType::boolean;
}
bool can_measure(Operation operation, DataType dtype) {
  return operation == Operation::allreduce && is_floating_point(dtype);
}
bool can_send_a_share(Operation operation, DataType dtype, ReduceOp op) {
  return operation == Operation::allreduce && dtype == DataType::float32 &&
         (op == ReduceOp::sum || op == ReduceOp::average);
}
DataType accumulator_of(DataType dtype) { return row(dtype).accumulator; }

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

std::optional<DataType> data_type_from(std::uint8_t value) {
  if (value >= kDataTypeCount) return std::nullopt;
  return static_cast<DataType>(value);
}

std::optional<ReduceOp> reduce_op_from(std::uint8_t value) {
  if (value >= kReduceOpCount) return std::nullopt;
  return static_cast<ReduceOp>(value);
}

std::optional<Operation> operation_from(std::uint8_t value) {
  if (value >= kOperationCount) return std::nullopt;
  return static_cast<Operation>(value);
}

std::optional<ReductionOrder> reduction_order_from(std::uint8_t value) {
  if (value > static_cast<std::uint8_t>(ReductionOrder::fixed)) return std::nullopt;
  return static_cast<ReductionOrder>(value);
}

std::optional<Compression> compression_from(std::uint8_t value) {
  if (value > static_cast<std::uint8_t>(Compression::topk)) return std::nullopt;
  return static_cast<Compression>(value);
}

std::optional<DeviceKind> device_kind_from(std::uint8_t value) {
  if (value > static_cast<std::uint8_t>(DeviceKind::cuda)) return std::nullopt;
  return static_cast<DeviceKind>(value);
}

}  // namespace rueda
