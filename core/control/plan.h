// SPDX-License-Identifier: Apache-2.0
// What every rank does next, as rank 0 decided it. Plans are numbered and reach every rank in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/control/request.h"

namespace rueda {

// A tensor of a Plan and its place in the fused buffer.
struct PlanTensor {
  std::string name;
  std::int64_t elements = 0;  // on every rank; 0 for operations whose ranks differ in size
  std::int64_t offset = 0;    // bytes

  friend bool operator==(const PlanTensor&, const PlanTensor&) = default;
};

// Purpose: one operation on one or several tensors of equal dtype, reduction and scale. A Plan whose status
// is not ok carries out nothing: it completes its tensors with that Status, on every rank, in order. A plain
// value.
struct Plan {
  std::uint64_t number = 0;
  Status status;
  Operation operation = Operation::allreduce;
  DataType dtype = DataType::float32;
  ReduceOp reduce_op = ReduceOp::sum;
  double prescale_factor = 1.0;
  double postscale_factor = 1.0;
  Rank root = 0;
  std::uint8_t backend = 0;      // index into Parts::backends, the same on all ranks
  std::int64_t chunk_bytes = 0;  // messages of a Work carry at most so many
  std::vector<PlanTensor> tensors;
  std::int64_t buffer_bytes = 0;  // of the fused buffer; a single tensor needs none unless it is strided

  friend bool operator==(const Plan&, const Plan&) = default;
};

void write(Writer& writer, const Plan& plan);
Plan read_plan(Reader& reader);

}  // namespace rueda
