// SPDX-License-Identifier: Apache-2.0
// Facts about operations and element types that the engine needs, and enumerators from received bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "rueda/status.h"
#include "rueda/types.h"

namespace rueda {

// Facts of an operation that hold for every backend. One row per Operation.
struct OperationTraits {
  std::string_view name;
  bool reduces;            // has a ReduceOp and scale factors
  bool fusable;            // several tensors may share one buffer and one Work
  bool has_root;           // names a rank
  bool ragged_first_axis;  // ranks may differ in the first dimension, and must agree in the others
  bool moves_data;         // is carried out by a backend
  bool makes_output;       // finds the shape of its output itself
  // The operation of a Plan that carries out this one. A reduce becomes an allreduce with a result on the
  // root alone. A gather or scatter becomes an alltoall in which only the root receives or gives rows.
  // A message becomes a broadcast among two ranks.
  Operation carried_out_as;
};

// The row of an operation.
const OperationTraits& traits(Operation operation);

// Whether `op` means something there: adasum does not everywhere, and bool has no average.
bool can_reduce(Operation operation, DataType dtype, ReduceOp op);
// An allreduce of floating point can sum up the squares of its result on the way.
bool can_measure(Operation operation, DataType dtype);
// Top-k applies to an allreduce that sums or averages float32.
bool can_send_a_share(Operation operation, DataType dtype, ReduceOp op);
// A share of elements is more than none, and no more than all.
inline bool is_share(double share) { return share > 0.0 && share <= 1.0; }
// The type in which values of `dtype` are accumulated: float32 for the 16-bit floats, else itself.
DataType accumulator_of(DataType dtype);

// From a byte received or a number given by a user; nothing when it names no enumerator.
std::optional<DataType> data_type_from(std::uint8_t value);
std::optional<ReduceOp> reduce_op_from(std::uint8_t value);
std::optional<Operation> operation_from(std::uint8_t value);
std::optional<Compression> compression_from(std::uint8_t value);
std::optional<DeviceKind> device_kind_from(std::uint8_t value);
std::optional<StatusCode> status_code_from(std::uint8_t value);

}  // namespace rueda
