// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/signature.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "frameworks/torch/c10d/operations/tensor_bytes.h"

namespace rueda {
namespace {

Request allreduce(at::ScalarType type, Shape shape, c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
  Request request;
  request.shape = std::move(shape);
  sign(request, c10d::OpType::ALLREDUCE);
  sign(request, type);
  sign(request, c10d::ReduceOp(op));
  return request;
}

TEST(Signature, EachPartMakesAnotherOne) {
  const Request request = allreduce(at::kInt, {4});
  EXPECT_EQ(request.signature, allreduce(at::kInt, {4}).signature);
  EXPECT_NE(request.signature, allreduce(at::kUInt32, {4}).signature);
  EXPECT_NE(request.signature, allreduce(at::kInt, {4}, c10d::ReduceOp::BAND).signature);
  Request other = request;
  sign(other, c10d::OpType::REDUCE);
  EXPECT_NE(other.signature, request.signature);
  other = request;
  sign_sizes(other, std::array<std::int64_t, 2>{1, 3});
  Request swapped = request;
  sign_sizes(swapped, std::array<std::int64_t, 2>{3, 1});
  EXPECT_NE(other.signature, swapped.signature);
  EXPECT_EQ(other.signature & 0xffffffff, request.signature);
}

TEST(Signature, SaysWhatTheProgramCalled) {
  CallInWords call = call_of(allreduce(at::kUInt32, {2, 3}, c10d::ReduceOp::AVG));
  EXPECT_EQ(call.operation, "all_reduce");
  EXPECT_EQ(call.reduction, "AVG");
  EXPECT_EQ(call.type, "uint32");
  EXPECT_EQ(call.shape, "[2, 3]");
  call = call_of(allreduce(at::kComplexFloat, {3, 2}));
  EXPECT_EQ(call.type + call.shape, "complex64[3]");
}

TEST(Signature, WhatTravelsAsBytesHasItsElementsInWords) {
  const at::Tensor tensor = at::zeros({3, 2}, at::kComplexDouble);
  Submission moved = moving(Operation::allgather, tensor, {});
  sign(moved.request, c10d::OpType::COALESCED);
  const CallInWords call = call_of(moved.request);
  EXPECT_EQ(call.operation, "all_gather_into_tensor_coalesced");
  EXPECT_EQ(call.reduction, "");
  EXPECT_EQ(call.type + call.shape, "complex128[6]");
}

TEST(Signature, AnUnknownPartIsLeftOut) {
  Request request;
  request.signature = 0xffffffffffffffff;
  const CallInWords call = call_of(request);
  EXPECT_EQ(call.operation, "allreduce");
  EXPECT_EQ(call.reduction + call.type + call.shape, "");
}

}  // namespace
}  // namespace rueda
