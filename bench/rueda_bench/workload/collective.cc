// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/workload/collective.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "core/base/error.h"
#include "ops/kernels/kernels.h"

namespace rueda::bench {
namespace {

constexpr int kValues = 3;  // of a rank: 0, 1, 2

int value(Rank rank, std::size_t i) {
  return static_cast<int>((i + static_cast<std::size_t>(rank)) % kValues);
}

template <class T>
std::uint64_t code_as(int value) {
  const T typed = static_cast<T>(value);
  std::uint64_t code = 0;
  std::memcpy(&code, &typed, sizeof typed);
  return code;
}

std::uint64_t code_of(DataType dtype, int value) {
  switch (dtype) {
    case DataType::uint8: return code_as<std::uint8_t>(value);
    case DataType::int8: return code_as<std::int8_t>(value);
    case DataType::int16: return code_as<std::int16_t>(value);
    case DataType::int32: return code_as<std::int32_t>(value);
    case DataType::int64: return code_as<std::int64_t>(value);
    case DataType::float32: return code_as<float>(value);
    case DataType::float64: return code_as<double>(value);
    case DataType::boolean: return value != 0;
    case DataType::float16:
    case DataType::bfloat16: {
      const auto wide = static_cast<float>(value);
      std::uint64_t code = 0;
      kernels::kernels_for(dtype).store(&code, &wide, 1, {});
      return code;
    }
  }
  RUEDA_ASSERT(false);
  return 0;
}

}  // namespace

void no_collective(Operation operation) {
  throw std::logic_error(fmt::format("rueda-bench does not measure {}", to_string(operation)));
}

double Collective::bus_factor(Rank ranks) const {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (operation == Operation::allreduce) return 2 * others;
  return operation == Operation::broadcast || operation == Operation::reduce ? 1 : others;
}

CollectiveBuffers::CollectiveBuffers(const Collective& what, Rank rank, Rank size, const Allocate& allocate)
    : what_(what), rank_(rank), size_(size) {
  for (int number = 0; number < kValues * size; ++number) codes_.push_back(code_of(what.dtype, number));
  const auto element = static_cast<std::int64_t>(size_of(what.dtype));
  input_ = allocate(static_cast<std::size_t>(input_elements() * element));
  expected_.resize(static_cast<std::size_t>(output_elements() * element));
  if (!in_place()) output_ = allocate(expected_.size());
  write_numbers(expected_.data(), output_elements(), [this](std::size_t i) { return expected(i); });
}

bool CollectiveBuffers::in_place() const {
  return what_.operation == Operation::allreduce || what_.operation == Operation::broadcast;
}

std::int64_t CollectiveBuffers::input_elements() const {
  const auto all = static_cast<std::int64_t>(what_.elements());
  switch (what_.operation) {
    case Operation::allgather:
    case Operation::gather: return all / size_;
    case Operation::scatter: return rank_ == kRoot ? all : 0;
    default: return all;
  }
}

std::int64_t CollectiveBuffers::output_elements() const {
  const auto all = static_cast<std::int64_t>(what_.elements());
  switch (what_.operation) {
    case Operation::reducescatter:
    case Operation::scatter: return all / size_;
    case Operation::reduce:
    case Operation::gather: return rank_ == kRoot ? all : 0;
    default: return all;
  }
}

int CollectiveBuffers::expected(std::size_t i) const {
  const auto part = what_.elements() / static_cast<std::size_t>(size_);
  auto sum = [this](std::size_t element) {
    int total = 0;
    for (Rank each = 0; each < size_; ++each) total += value(each, element);
    return total;
  };
  switch (what_.operation) {
    case Operation::allreduce:
    case Operation::reduce: return sum(i);
    case Operation::broadcast: return value(kRoot, i);
    case Operation::scatter: return value(kRoot, static_cast<std::size_t>(rank_) * part + i);
    case Operation::allgather:
    case Operation::gather: return value(static_cast<Rank>(i / part), i % part);
    case Operation::reducescatter: return sum(static_cast<std::size_t>(rank_) * part + i);
    case Operation::alltoall:
      return value(static_cast<Rank>(i / part), static_cast<std::size_t>(rank_) * part + i % part);
    case Operation::message:
    case Operation::barrier:
    case Operation::join:
    case Operation::add_process_set:
    case Operation::remove_process_set: break;
  }
  no_collective(what_.operation);
}

template <class Word, class Number>
void CollectiveBuffers::write(std::byte* to, std::int64_t elements, Number number) const {
  auto* words = reinterpret_cast<Word*>(to);
  for (std::size_t i = 0; i < static_cast<std::size_t>(elements); ++i)
    words[i] = static_cast<Word>(codes_[static_cast<std::size_t>(number(i))]);
}

template <class Number>
void CollectiveBuffers::write_numbers(std::byte* to, std::int64_t elements, Number number) const {
  switch (size_of(what_.dtype)) {
    case 1: return write<std::uint8_t>(to, elements, number);
    case 2: return write<std::uint16_t>(to, elements, number);
    case 4: return write<std::uint32_t>(to, elements, number);
    default: return write<std::uint64_t>(to, elements, number);
  }
}

void CollectiveBuffers::fill(std::byte* tensor) const {
  write_numbers(tensor, input_elements(), [this](std::size_t i) { return value(rank_, i); });
}

std::size_t CollectiveBuffers::wrong(const void* result) const {
  if (what_.share > 0 || std::memcmp(result, expected_.data(), expected_.size()) == 0) return 0;
  const std::size_t element = size_of(what_.dtype);
  const auto* got = static_cast<const std::byte*>(result);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected_.size(); i += element)
    wrong += std::memcmp(got + i, expected_.data() + i, element) != 0;
  return wrong;
}

}  // namespace rueda::bench
