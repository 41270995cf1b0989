// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/reductions.h"

#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <limits>

#include "frameworks/torch/c10d/operations/tensor_bytes.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

using C10dOp = c10d::ReduceOp;

// A type of as many bits with the same bits of sums and products.
at::ScalarType signed_type(at::ScalarType type) {
  switch (type) {
    case at::kUInt16: return at::kShort;
    case at::kUInt32: return at::kInt;
    case at::kUInt64: return at::kLong;
    default: return type;
  }
}

// One that has all its values; none for 64 bits.
at::ScalarType wider_type(at::ScalarType type) { return type == at::kUInt16 ? at::kInt : at::kLong; }

bool is_unsigned(at::ScalarType type) { return signed_type(type) != type; }

// Bits tell all: for sums and products.
bool same_bits(const C10dOp& op) {
  return op.op_ == C10dOp::SUM || op.op_ == C10dOp::PRODUCT || is_bitwise(op);
}

// Orders numbers of 64 bits without a sign as numbers with one are ordered.
at::Tensor moved_by_half(const at::Tensor& values) {
  return at::bitwise_xor(values, std::numeric_limits<std::int64_t>::min());
}

double premultiplier(const C10dOp& op) {
  const auto* factor = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(factor != nullptr, "rueda: PREMUL_SUM has no factor; make it by _make_nccl_premul_sum");
  return factor->tensor_factor.defined() ? factor->tensor_factor.item<double>() : factor->double_factor;
}

void check_complex(const C10dOp& op) {
  const bool linear = op.op_ == C10dOp::SUM || op.op_ == C10dOp::AVG || op.op_ == C10dOp::PREMUL_SUM;
  TORCH_CHECK_VALUE(linear, "rueda: complex numbers have the reductions SUM, AVG and PREMUL_SUM");
}

}  // namespace

bool is_bitwise(const C10dOp& op) {
  return op.op_ == C10dOp::BAND || op.op_ == C10dOp::BOR || op.op_ == C10dOp::BXOR;
}

void check_bitwise(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(at::isIntegralType(tensor.scalar_type(), true),
                    "rueda: BAND, BOR and BXOR combine integers and bool, not ", tensor.scalar_type());
}

void bitwise_into(const at::Tensor& result, const at::Tensor& values, int ranks, const C10dOp& op) {
  const at::ScalarType type = signed_type(result.scalar_type());
  const at::Tensor all = values.view(type).view({ranks, -1});
  at::Tensor sum = all[0].clone();
  for (int rank = 1; rank < ranks; ++rank) {
    switch (op.op_) {
      case C10dOp::BAND: sum.bitwise_and_(all[rank]); break;
      case C10dOp::BOR: sum.bitwise_or_(all[rank]); break;
      default: sum.bitwise_xor_(all[rank]); break;
    }
  }
  copy_each_once(result, sum.view(result.scalar_type()).view(result.sizes()));
}

Reduction reduction_of(const C10dOp& op) {
  switch (op.op_) {
    case C10dOp::SUM: return {rueda::ReduceOp::sum};
    case C10dOp::AVG: return {rueda::ReduceOp::average};
    case C10dOp::PRODUCT: return {rueda::ReduceOp::product};
    case C10dOp::MIN: return {rueda::ReduceOp::min};
    case C10dOp::MAX: return {rueda::ReduceOp::max};
    case C10dOp::PREMUL_SUM: return {rueda::ReduceOp::sum, premultiplier(op)};
    default: break;
  }
  C10_THROW_ERROR(ValueError,
                  "rueda: this reduction is none of SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, "
                  "BXOR and PREMUL_SUM");
}

bool is_reducible_in_place(const at::Tensor& tensor, const C10dOp& op) {
  return !is_unsigned(tensor.scalar_type()) || same_bits(op);
}

at::Tensor reducible(const at::Tensor& tensor, const C10dOp& op) {
  const at::ScalarType type = tensor.scalar_type();
  if (at::isComplexType(type)) {
    check_complex(op);
    return at::view_as_real(tensor);
  }
  TORCH_CHECK_VALUE(is_unsigned(type) || known_data_type(type), "rueda: ", c10::getDtypeNames(type).first,
                    " is moved, but not reduced; convert it by to(torch.bfloat16) before");
  if (!is_unsigned(type)) return tensor;
  if (same_bits(op)) return tensor.view(signed_type(type));
  if (type != at::kUInt64) return tensor.to(wider_type(type));
  TORCH_CHECK_VALUE(op.op_ == C10dOp::MIN || op.op_ == C10dOp::MAX,
                    "rueda: uint64 has the reductions SUM, PRODUCT, MIN, MAX, BAND, BOR and BXOR; convert it "
                    "to int64 for others");
  return moved_by_half(tensor.view(at::kLong));
}

void restore(const at::Tensor& tensor, const at::Tensor& values, const C10dOp& op) {
  const at::ScalarType type = tensor.scalar_type();
  if (at::isComplexType(type)) {
    copy_each_once(at::view_as_real(tensor), values);
  } else if (type == at::kUInt64 && !same_bits(op)) {
    copy_each_once(tensor.view(at::kLong), moved_by_half(values));
  } else if (is_unsigned(type)) {
    copy_each_once(tensor, same_bits(op) ? values.view(type) : values.to(type));
  } else {
    copy_each_once(tensor, values);
  }
}

}  // namespace rueda
