// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_launch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "core/base/operation_traits.h"
#include "ops/kernels/kernels.h"
#include "ops/link/channel.h"
#include "ops/nccl/nccl_check.h"

namespace rueda {
namespace {

// Purpose: calls that NCCL carries out together. One that was not ended is ended all the same: NCCL counts
// them.
class NcclCalls {
 public:
  explicit NcclCalls(const NcclEnd& end) : end_(end) {
    check(end_.nccl, end_.nccl.group_start(), "ncclGroupStart", end_.comm);
  }
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;
  ~NcclCalls() {
    if (open_) end_.nccl.group_end();
  }
  void end() {
    open_ = false;
    check(end_.nccl, end_.nccl.group_end(), "ncclGroupEnd", end_.comm);
  }

 private:
  const NcclEnd& end_;
  bool open_ = true;
};

bool all_equal(const std::vector<std::int64_t>& values) {
  return std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
}

const std::byte* behind(const void* memory, std::int64_t offset) {
  return at(static_cast<const std::byte*>(memory), offset);
}
std::byte* behind(void* memory, std::int64_t offset) { return at(static_cast<std::byte*>(memory), offset); }

// bool is kept as a byte that is 0 or 1.
ncclRedOp_t plain_op(ReduceOp op, bool logical) {
  switch (op) {
    case ReduceOp::sum: return logical ? ncclMax : ncclSum;
    case ReduceOp::average: return ncclAvg;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::product: return logical ? ncclMin : ncclProd;
    case ReduceOp::adasum: break;
  }
  return ncclSum;
}

bool reduces_as_meant(const Plan& plan) {
  if (!nccl_type(plan.dtype) || plan.reduce_op == ReduceOp::adasum) return false;
  if (plan.reduction_order != ReductionOrder::any || plan.measure) return false;
  if (plan.compression == Compression::topk) return false;
  const bool sums = plan.reduce_op == ReduceOp::sum || plan.reduce_op == ReduceOp::average;
  // NCCL's sums of integers wrap.
  if (plan.reduce_op == ReduceOp::average && is_integer(plan.dtype)) return false;
  const bool scaled = plan.prescale_factor != 1.0 || plan.postscale_factor != 1.0;
  return !scaled || (sums && is_floating_point(plan.dtype));
}

}  // namespace

bool nccl_can_run(const Plan& plan) {
  if (traits(plan.operation).reduces) return reduces_as_meant(plan);
  return traits(plan.operation).moves_data;
}

std::optional<ncclDataType_t> nccl_type(DataType dtype) {
  switch (dtype) {
    case DataType::uint8:
    case DataType::boolean: return ncclUint8;
    case DataType::int8: return ncclInt8;
    case DataType::int16: return std::nullopt;
    case DataType::int32: return ncclInt32;
    case DataType::int64: return ncclInt64;
    case DataType::float16: return ncclFloat16;
    case DataType::bfloat16: return ncclBfloat16;
    case DataType::float32: return ncclFloat32;
    case DataType::float64: return ncclFloat64;
  }
  return std::nullopt;
}

double exact_part(double factor, DataType dtype) {
  if (factor == 0.0) return 1.0;
  int exponent = 0;
  const double half_to_one = std::frexp(factor, &exponent);
  const int least = dtype == DataType::float16 ? -14 : -126, most = dtype == DataType::float16 ? 15 : 127;
  return std::ldexp(half_to_one < 0 ? -1.0 : 1.0, std::clamp(exponent - 1, least, most));
}

NcclReduction plain_reduction(ReduceOp op, DataType dtype) {
  return {*nccl_type(dtype), plain_op(op, dtype == DataType::boolean), false, 1.0};
}

NcclReduction reduction_of(const NcclEnd& end, const Plan& plan, DataType dtype) {
  NcclReduction reduction = plain_reduction(plan.reduce_op, dtype);
  const bool averages = plan.reduce_op == ReduceOp::average, narrow_type = accumulator_of(dtype) != dtype;
  double factor = plan.prescale_factor * plan.postscale_factor;
  if (factor == 1.0 && !(averages && narrow_type)) return reduction;
  if (averages) factor /= end.size;
  if (narrow_type) {
    const double exact = exact_part(factor, dtype);
    reduction.rest = factor / exact;
    factor = exact;
    reduction.op = ncclSum;
    if (factor == 1.0) return reduction;
  }
  const auto narrow = static_cast<float>(factor);
  const bool wide = accumulator_of(dtype) == DataType::float64;
  std::array<std::byte, sizeof(double)> scalar{};  // of that type
  kernels::kernels_for(dtype).store(scalar.data(), wide ? static_cast<const void*>(&factor) : &narrow, 1, {});
  check(end.nccl,
        end.nccl.red_op_create_pre_mul_sum(&reduction.op, scalar.data(), reduction.type,
                                           ncclScalarHostImmediate, end.comm),
        "ncclRedOpCreatePreMulSum", end.comm);
  reduction.made = true;
  return reduction;
}

void release(const NcclEnd& end, const NcclReduction& reduction) {
  if (!reduction.made) return;
  check(end.nccl, end.nccl.red_op_destroy(reduction.op, end.comm), "ncclRedOpDestroy", end.comm);
}

void launch_allreduce(const NcclEnd& end, const NcclReduction& reduction, std::span<const NcclRun> runs) {
  NcclCalls calls(end);
  for (const NcclRun& run : runs) {
    if (run.elements == 0) continue;
    check(end.nccl,
          end.nccl.all_reduce(run.from, run.to, static_cast<std::size_t>(run.elements), reduction.type,
                              reduction.op, end.comm, end.stream),
          "ncclAllReduce", end.comm);
  }
  calls.end();
}

void launch_broadcast(const NcclEnd& end, const void* from, void* to, std::int64_t bytes, Rank root) {
  NcclCalls calls(end);
  if (bytes > 0) {
    check(
        end.nccl,
        end.nccl.broadcast(from, to, static_cast<std::size_t>(bytes), ncclUint8, root, end.comm, end.stream),
        "ncclBroadcast", end.comm);
  }
  calls.end();
}

// Parts of several lengths are broadcast one by one, together.
void launch_allgather(const NcclEnd& end, const void* from, void* to,
                      const std::vector<std::int64_t>& bytes) {
  NcclCalls calls(end);
  if (all_equal(bytes)) {
    if (bytes.front() > 0) {
      check(end.nccl,
            end.nccl.all_gather(from, to, static_cast<std::size_t>(bytes.front()), ncclUint8, end.comm,
                                end.stream),
            "ncclAllGather", end.comm);
    }
    return calls.end();
  }
  std::int64_t offset = 0;
  for (Rank root = 0; root < end.size; ++root) {
    const std::int64_t count = bytes[static_cast<std::size_t>(root)];
    void* const part = behind(to, offset);
    offset += count;
    if (count == 0) continue;
    check(end.nccl,
          end.nccl.broadcast(root == end.index ? from : part, part, static_cast<std::size_t>(count),
                             ncclUint8, root, end.comm, end.stream),
          "ncclBroadcast", end.comm);
  }
  calls.end();
}

void launch_alltoall(const NcclEnd& end, const void* from, void* to, const std::vector<std::int64_t>& sent,
                     const std::vector<std::int64_t>& received) {
  NcclCalls calls(end);
  std::int64_t out = 0, in = 0;
  for (Rank peer = 0; peer < end.size; ++peer) {
    const std::int64_t goes = sent[static_cast<std::size_t>(peer)],
                       comes = received[static_cast<std::size_t>(peer)];
    if (goes > 0) {
      check(end.nccl,
            end.nccl.send(behind(from, out), static_cast<std::size_t>(goes), ncclUint8, peer, end.comm,
                          end.stream),
            "ncclSend", end.comm);
    }
    if (comes > 0) {
      check(end.nccl,
            end.nccl.recv(behind(to, in), static_cast<std::size_t>(comes), ncclUint8, peer, end.comm,
                          end.stream),
            "ncclRecv", end.comm);
    }
    out += goes;
    in += comes;
  }
  calls.end();
}

// Parts of several lengths are reduced one by one, together.
void launch_reducescatter(const NcclEnd& end, const NcclReduction& reduction, const void* from, void* to,
                          const std::vector<std::int64_t>& elements, std::size_t element_bytes) {
  NcclCalls calls(end);
  if (all_equal(elements)) {
    if (elements.front() > 0) {
      check(end.nccl,
            end.nccl.reduce_scatter(from, to, static_cast<std::size_t>(elements.front()), reduction.type,
                                    reduction.op, end.comm, end.stream),
            "ncclReduceScatter", end.comm);
    }
    return calls.end();
  }
  std::int64_t offset = 0;
  for (Rank root = 0; root < end.size; ++root) {
    const std::int64_t count = elements[static_cast<std::size_t>(root)];
    const void* const part = behind(from, offset * static_cast<std::int64_t>(element_bytes));
    offset += count;
    if (count == 0) continue;
    check(end.nccl,
          end.nccl.reduce(part, to, static_cast<std::size_t>(count), reduction.type, reduction.op, root,
                          end.comm, end.stream),
          "ncclReduce", end.comm);
  }
  calls.end();
}

}  // namespace rueda
