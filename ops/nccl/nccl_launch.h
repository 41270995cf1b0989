// SPDX-License-Identifier: Apache-2.0
// Operations as calls of NCCL: which ones, with what, in which order. Nothing waits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/control/messages/plan.h"
#include "ops/nccl/nccl_library.h"

namespace rueda {

// Whether NCCL can do it: the operation, the type, the reduction and its scale, as they are meant.
bool nccl_can_run(const Plan& plan);

// The type in which NCCL reduces such elements; none for int16.
std::optional<ncclDataType_t> nccl_type(DataType dtype);

// Purpose: one rank's end of a communicator, as a sequence of calls. A value, for one operation.
struct NcclEnd {
  const NcclFunctions& nccl;
  ncclComm_t comm;
  cudaStream_t stream;
  Rank size;   // members
  Rank index;  // of this rank among them
};

// Purpose: how NCCL reduces. A value; what was made for it lives as long as the communicator, or until
// release().
struct NcclReduction {
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  bool made = false;
  // The factor for the results afterwards, in float32: 16-bit floats cannot say every factor, and NCCL's
  // factors are of the elements' type. Not less than 1 if possible: then sums do not overflow if results do
  // not.
  double rest = 1.0;
};
// Without a factor.
NcclReduction plain_reduction(ReduceOp op, DataType dtype);
// The power of two, with its sign, below a factor that is to be applied to 16-bit floats: they lose nothing
// by it.
double exact_part(double factor, DataType dtype);
// Of elements of `dtype`: that of the Plan, or what its tensors travel as.
NcclReduction reduction_of(const NcclEnd& end, const Plan& plan, DataType dtype);
// When NCCL is through with it.
void release(const NcclEnd& end, const NcclReduction& reduction);

// Some elements, from here to there; one address for both: in place.
struct NcclRun {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t elements = 0;
};

// All of them at once.
void launch_allreduce(const NcclEnd& end, const NcclReduction& reduction, std::span<const NcclRun> runs);
void launch_broadcast(const NcclEnd& end, const void* from, void* to, std::int64_t bytes, Rank root);
// `bytes`: of each member, in their order, as they will lie in `to`.
void launch_allgather(const NcclEnd& end, const void* from, void* to, const std::vector<std::int64_t>& bytes);
// Bytes for each member and from each member.
void launch_alltoall(const NcclEnd& end, const void* from, void* to, const std::vector<std::int64_t>& sent,
                     const std::vector<std::int64_t>& received);
// `elements`: of each member's part, in their order; each has `element_bytes`.
void launch_reducescatter(const NcclEnd& end, const NcclReduction& reduction, const void* from, void* to,
                          const std::vector<std::int64_t>& elements, std::size_t element_bytes);

}  // namespace rueda
