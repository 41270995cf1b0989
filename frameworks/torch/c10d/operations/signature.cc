// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/signature.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/operation_traits.h"
#include "rueda/types.h"

namespace rueda {
namespace {

// A signature has a byte each for the operation, the type and the reduction, each number plus 1, so that 0
// says nothing; a byte that is not 0 for pairs of real numbers; and 32 bits for sizes.
constexpr int kType = 8, kReduction = 16, kPairs = 24, kSizes = 32;
static_assert(kSignatureNotes == std::uint64_t{0xff} << kPairs);

// In the order of c10d::OpType.
constexpr std::array<std::string_view, 19> kOperations{"broadcast",
                                                       "all_reduce",
                                                       "all_reduce_coalesced",
                                                       "reduce",
                                                       "all_gather",
                                                       "all_gather_into_tensor",
                                                       "all_gather_coalesced",
                                                       "gather",
                                                       "scatter",
                                                       "reduce_scatter",
                                                       "all_to_all_single",
                                                       "all_to_all",
                                                       "send or recv",
                                                       "send or recv",
                                                       "send or recv",
                                                       "barrier",
                                                       "reduce_scatter_tensor",
                                                       "",
                                                       "all_reduce of a sparse tensor"};
// In the order of c10d::ReduceOp::RedOpType.
constexpr std::array<std::string_view, 9> kReductions{"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                                      "BAND", "BOR", "BXOR",    "PREMUL_SUM"};

void sign(Request& request, int shift, std::size_t number) {
  request.signature &= ~(std::uint64_t{0xff} << shift);
  request.signature |= std::uint64_t{(number + 1) & 0xff} << shift;
}

// Minus 1: nothing.
int signed_number(const Request& request, int shift) {
  return static_cast<int>((request.signature >> shift) & 0xff) - 1;
}

std::string operation_of(const Request& request, bool reduces) {
  const int number = signed_number(request, 0);
  if (number < 0 || number >= static_cast<int>(kOperations.size()))
    return std::string(to_string(request.operation));
  if (static_cast<c10d::OpType>(number) == c10d::OpType::COALESCED)
    return reduces ? "reduce_scatter_tensor_coalesced" : "all_gather_into_tensor_coalesced";
  return std::string(kOperations[static_cast<std::size_t>(number)]);
}

// As the program knows it: complex numbers are no pairs, and elements no bytes.
Shape shape_of(const Request& request, at::ScalarType type) {
  std::vector<std::int64_t> shape(request.shape.begin(), request.shape.end());
  const bool reduces = traits(request.operation).reduces, complex = at::isComplexType(type);
  if (reduces && request.operation != Operation::reducescatter) {
    if (complex && !shape.empty()) shape.pop_back();
  } else if (reduces) {
    if (complex) shape.front() /= 2;
  } else if (request.dtype == DataType::uint8 && shape.size() == 1) {
    shape.front() /= static_cast<std::int64_t>(c10::elementSize(type));
  } else if (complex && shape.size() == 1) {
    shape.front() /= 2;
  }
  return Shape(shape);
}

// The first request of a sparse tensor has the shape behind two dimensions of 0, and then the number of
// sparse dimensions.
std::string words_of_shape(const Request& request, at::ScalarType type) {
  const Shape& shape = request.shape;
  const bool sparse = static_cast<c10d::OpType>(signed_number(request, 0)) == c10d::OpType::_ALLREDUCE_SPARSE;
  if (!sparse || shape.size() < 3 || shape[0] != 0 || shape[1] != 0)
    return to_string(shape_of(request, type));
  const std::vector<std::int64_t> sizes(shape.begin() + 2, shape.end() - 1);
  return fmt::format("{}, {} of its dimensions sparse", to_string(Shape(sizes)), shape[shape.size() - 1]);
}

std::string name_of(at::ScalarType type) {
  try {
    return std::string(c10::getDtypeNames(type).first);
  } catch (const c10::Error&) {  // it has none in Python
    return c10::toString(type);
  }
}

}  // namespace

void sign(Request& request, c10d::OpType operation) { sign(request, 0, static_cast<std::size_t>(operation)); }

void sign(Request& request, at::ScalarType type) { sign(request, kType, static_cast<std::size_t>(type)); }

void sign(Request& request, const c10d::ReduceOp& op) {
  sign(request, kReduction, static_cast<std::size_t>(op.op_));
}

void sign_pairs(Request& request, const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  const bool may_be =
      at::isFloatingType(type) && tensor.dim() > 0 && tensor.size(-1) == 2 && tensor.stride(-1) == 1;
  if (may_be && tensor.is_view() && at::isComplexType(tensor._base().scalar_type()))
    request.signature |= std::uint64_t{1} << kPairs;
}

void sign_sizes(Request& request, std::span<const std::int64_t> sizes) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  std::uint64_t hash = (sizes.size() + 1) * kOdd;
  for (const std::int64_t size : sizes) {
    hash = (hash ^ static_cast<std::uint64_t>(size)) * kOdd;
    hash ^= hash >> 32;
  }
  request.signature = (request.signature & 0xffffffffu) | (hash << kSizes);
}

void sign_sizes(Request& request, std::span<const at::Tensor> tensors) {
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& each : tensors) sizes.push_back(each.numel());
  sign_sizes(request, sizes);
}

CallInWords call_of(const Request& request) {
  CallInWords call;
  const int reduction = signed_number(request, kReduction), type = signed_number(request, kType);
  call.operation = operation_of(request, reduction >= 0);
  if (reduction >= 0 && reduction < static_cast<int>(kReductions.size()))
    call.reduction = kReductions[static_cast<std::size_t>(reduction)];
  if (type < 0 || type >= static_cast<int>(at::ScalarType::Undefined)) return call;
  const bool is_pairs = (request.signature & kSignatureNotes) != 0;
  const auto scalar =
      is_pairs ? at::toComplexType(static_cast<at::ScalarType>(type)) : static_cast<at::ScalarType>(type);
  call.type = name_of(scalar);
  call.shape = words_of_shape(request, scalar);
  return call;
}

}  // namespace rueda
