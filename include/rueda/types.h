// SPDX-License-Identifier: Apache-2.0
// The words every layer shares: element types, reduction operators, collective operations. Values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rueda {

using Rank = std::int32_t;  // a process of the job, counted from 0; also a number of processes

// Which ranks an operation concerns: 0 is the set of all, others are given by rank 0.
using ProcessSetId = std::uint32_t;
inline constexpr ProcessSetId kWorld = 0;

// The type of an element.
enum class DataType : std::uint8_t {
  uint8,
  int8,
  int16,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  boolean,
};
inline constexpr int kDataTypeCount = 10;  // of DataType

// The memory that holds a tensor: the host's, or that of a device that CUDA knows.
enum class DeviceKind : std::uint8_t { host, cuda };

// How elements of several ranks become one.
//   sum      integers wrap modulo 2^bits; bool: logical or
//   average  the sum divided by the number of ranks; of integers exact, rounded toward zero; bool: an error
//   min, max bool: logical and, or
//   product  integers wrap modulo 2^bits; bool: logical and
//   adasum   allreduce of floating point only. Two vectors a and b become
//              (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
//            with products of whole tensors: their sum where they are orthogonal, their average where they
//            are equal. A vector of zeros leaves the other as it is. Of more ranks (of a process set: its
//            members, numbered from 0) those from the largest power of two P on are combined first, rank r
//            into rank r - P; then 0 with 1, 2 with 3, ..., then 0 with 2, 4 with 6, and so on. A value that
//            is not finite makes every element of its tensor NaN.
// float16 and bfloat16 are accumulated in float32 and rounded once.
enum class ReduceOp : std::uint8_t { sum, average, min, max, product, adasum };
inline constexpr int kReduceOpCount = 6;  // of ReduceOp

// In which order values of several ranks are combined, where that changes bits: floating point.
//   any    as is quickest; the same bits on every rank, others where ranks are more, or on more hosts
//   fixed  by a balanced tree over the ranks, ((0+1)+(2+3))+..., whatever way data moves
enum class ReductionOrder : std::uint8_t { any, fixed };

// The format of reduced float32 values on a network. fp16 and bf16 halve the bytes. Values are combined in
// float32, and rounded at every hop. The result has values of the narrow type, the same on every rank. Inside
// a host, or with a fixed order, nothing is rounded. topk: of a sum or an average only a share of the
// elements, those of largest magnitude, go from host to host. A host keeps the rest, and adds it the next
// time that a tensor of that name is reduced. For gradients, not for values that are needed at once. All
// other reductions travel whole.
enum class Compression : std::uint8_t { none, fp16, bf16, topk };

// reduce, gather, scatter and message run as another operation (OperationTraits::carried_out_as). send_async
// and recv_async submit a message. The last three change the set of participants. They move no data, and no
// backend sees them.
enum class Operation : std::uint8_t {
  allreduce,
  allgather,
  broadcast,
  alltoall,
  reducescatter,
  reduce,
  gather,
  scatter,
  message,
  barrier,
  join,
  add_process_set,
  remove_process_set,
};
inline constexpr int kOperationCount = 13;

std::size_t size_of(DataType dtype);     // bytes of one element
bool is_floating_point(DataType dtype);  // the 16-bit ones too
bool is_integer(DataType dtype);         // neither floating point nor bool
// The enumerator's name.
std::string_view to_string(DataType dtype);
std::string_view to_string(ReduceOp op);
std::string_view to_string(Operation operation);
std::string_view to_string(ReductionOrder order);
std::string_view to_string(Compression compression);
std::string_view to_string(DeviceKind device);

}  // namespace rueda
