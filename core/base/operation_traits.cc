// SPDX-License-Identifier: Apache-2.0
#include "core/base/operation_traits.h"

#include <array>

namespace rueda {
namespace {

//   name, reduces, fusable, has a root, ragged, moves data, makes its output, carried out as
constexpr std::array<OperationTraits, kOperationCount> kOperations{{
    {"allreduce", true, true, false, false, true, false, Operation::allreduce},
    {"allgather", false, false, false, true, true, true, Operation::allgather},
    {"broadcast", false, false, true, false, true, false, Operation::broadcast},
    {"alltoall", false, false, false, true, true, true, Operation::alltoall},
    {"reducescatter", true, false, false, false, true, true, Operation::reducescatter},
    {"reduce", true, true, true, false, true, false, Operation::allreduce},
    {"gather", false, false, true, true, true, true, Operation::alltoall},
    {"scatter", false, false, true, true, true, true, Operation::alltoall},
    {"message", false, false, true, false, true, false, Operation::broadcast},
    {"barrier", false, false, false, false, true, false, Operation::barrier},
    {"join", false, false, false, false, false, false, Operation::join},
    {"add_process_set", false, false, false, false, false, false, Operation::add_process_set},
    {"remove_process_set", false, false, true, false, false, false, Operation::remove_process_set},
}};

}  // namespace

const OperationTraits& traits(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}

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
DataType accumulator_of(DataType dtype) {
  return dtype == DataType::float16 || dtype == DataType::bfloat16 ? DataType::float32 : dtype;
}

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

std::optional<Compression> compression_from(std::uint8_t value) {
  if (value > static_cast<std::uint8_t>(Compression::topk)) return std::nullopt;
  return static_cast<Compression>(value);
}

std::optional<DeviceKind> device_kind_from(std::uint8_t value) {
  if (value > static_cast<std::uint8_t>(DeviceKind::cuda)) return std::nullopt;
  return static_cast<DeviceKind>(value);
}

std::optional<StatusCode> status_code_from(std::uint8_t value) {
  if (value >= kStatusCodeCount) return std::nullopt;
  return static_cast<StatusCode>(value);
}

}  // namespace rueda
