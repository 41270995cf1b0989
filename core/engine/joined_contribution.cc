// SPDX-License-Identifier: Apache-2.0
#include "core/engine/joined_contribution.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "core/base/host_buffer.h"
#include "core/base/operation_traits.h"
#include "core/engine/work.h"

namespace rueda {
namespace {

template <class T>
void fill(std::byte* to, std::int64_t count, T value) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

template <class T>
void fill_identity(std::byte* to, std::int64_t count, ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  const T largest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  const T smallest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
    case ReduceOp::adasum: return fill(to, count, T{0});
    case ReduceOp::min: return fill(to, count, largest);
    case ReduceOp::max: return fill(to, count, smallest);
    case ReduceOp::product: return fill(to, count, T{1});
  }
}

// Of a 16-bit float, given the bits of 1 and of infinity.
void fill_half(std::byte* to, std::int64_t count, ReduceOp op, std::uint16_t one, std::uint16_t infinity) {
  constexpr std::uint16_t kMinus = 0x8000;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
    case ReduceOp::adasum: return fill(to, count, std::uint16_t{0});
    case ReduceOp::min: return fill(to, count, infinity);
    case ReduceOp::max: return fill(to, count, static_cast<std::uint16_t>(infinity | kMinus));
    case ReduceOp::product: return fill(to, count, one);
  }
}

void fill_identity(std::byte* to, std::int64_t count, DataType dtype, ReduceOp op) {
  switch (dtype) {
    case DataType::uint8: return fill_identity<std::uint8_t>(to, count, op);
    case DataType::int8: return fill_identity<std::int8_t>(to, count, op);
    case DataType::int16: return fill_identity<std::int16_t>(to, count, op);
    case DataType::int32: return fill_identity<std::int32_t>(to, count, op);
    case DataType::int64: return fill_identity<std::int64_t>(to, count, op);
    case DataType::float16: return fill_half(to, count, op, 0x3c00, 0x7c00);
    case DataType::bfloat16: return fill_half(to, count, op, 0x3f80, 0x7f80);
    case DataType::float32: return fill_identity<float>(to, count, op);
    case DataType::float64: return fill_identity<double>(to, count, op);
    case DataType::boolean: return fill(to, count, op == ReduceOp::min || op == ReduceOp::product);
  }
}

}  // namespace

Entry make_joined_contribution(const PlanTensor& tensor) {
  Submission submission;
  Request& request = submission.request;
  request = *tensor.request;
  request.others.clear();
  if (traits(request.operation).ragged_first_axis) request.shape.front() = 0;
  submission.output = {nullptr, request.dtype, request.shape, {}};
  submission.input = submission.output;
  Entry contribution(std::make_shared<HandleState>(nullptr, std::move(submission)));
  contribution.joined = true;
  return contribution;
}

void give_memory(Entry& contribution) {
  Submission& submission = contribution.submission();
  const Request& request = contribution.request();
  const auto bytes = static_cast<std::size_t>(bytes_of(request));
  std::shared_ptr<HostBuffer> memory;
  try {
    memory = std::make_shared<HostBuffer>(bytes);
  } catch (const std::bad_alloc&) {
    throw WorkFailure{
        fmt::format("it has joined, and has no memory for what stands in for it, {} bytes", bytes)};
  }
  if (traits(request.operation).reduces)
    fill_identity(memory->data(), element_count(request.shape), request.dtype, request.reduce_op);
  submission.output.data = memory->data();
  submission.input.data = memory->data();
  submission.owner = std::move(memory);
}

}  // namespace rueda
