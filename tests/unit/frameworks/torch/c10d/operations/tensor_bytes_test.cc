// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/tensor_bytes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

namespace rueda {
namespace {

TEST(TensorBytes, ATypeThatCoreDoesNotHaveMovesAsBytes) {
  EXPECT_EQ(moved_type(at::kFloat), DataType::float32);
  EXPECT_EQ(moved_type(at::kComplexDouble), DataType::uint8);
  EXPECT_EQ(moved_elements(at::zeros({3, 2}, at::kFloat)), 6);
  EXPECT_EQ(moved_elements(at::zeros({3, 2}, at::kComplexDouble)), 6 * 16);
  EXPECT_EQ(moved_elements({}), 0);
}

TEST(TensorBytes, AnOperationHasBothTensorsAsOneDimensionAndKeepsThemAlive) {
  at::Tensor input = at::arange(6, at::kFloat).reshape({2, 3});
  const at::Tensor output = at::zeros({3, 2}, at::kFloat);
  const Submission submission = moving(Operation::broadcast, input, output);
  EXPECT_EQ(submission.input.data, input.const_data_ptr());
  EXPECT_EQ(submission.output.data, output.mutable_data_ptr());
  EXPECT_TRUE(submission.into_output);
  EXPECT_EQ(submission.request.shape, submission.input.shape);
  EXPECT_EQ(submission.request.dtype, DataType::float32);
  const std::size_t holders = input.storage().use_count();
  input = at::Tensor();
  EXPECT_EQ(holders, std::size_t{2});
  EXPECT_EQ(static_cast<const float*>(submission.input.data)[5], 5.0F);
}

TEST(TensorBytes, OneSideMayBeAbsent) {
  const at::Tensor tensor = at::zeros({4}, at::kInt);
  const Submission sends = moving(Operation::alltoall, tensor, {});
  EXPECT_EQ(sends.output.data, nullptr);
  const Submission receives = moving(Operation::alltoall, {}, tensor);
  EXPECT_EQ(receives.input.data, nullptr);
  EXPECT_EQ(receives.request.dtype, DataType::int32);
}

TEST(TensorBytes, TensorsOfAllKindsComeBackAsTheyWere) {
  const std::vector<at::Tensor> tensors{at::arange(5, at::kShort), at::arange(3, at::kDouble),
                                        at::zeros({0}, at::kFloat),
                                        at::arange(12, at::kFloat).reshape({3, 4}).t()};
  const at::Tensor bytes = joined_bytes(tensors);
  EXPECT_EQ(static_cast<std::size_t>(bytes.nbytes()), 5 * 2 + 3 * 8 + 12 * 4u);
  std::vector<at::Tensor> others;
  for (const at::Tensor& each : tensors) others.push_back(at::full_like(each, -1));
  distribute_bytes(bytes, others);
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(at::equal(others[i], tensors[i])) << i;
}

// Bytes of several types need not be a multiple of the first type's.
TEST(TensorBytes, RoomForTypesOfOtherSizes) {
  const std::vector<at::Tensor> odd{at::zeros({1}, at::kDouble), at::zeros({3}, at::kByte)};
  EXPECT_EQ(room_for(odd).nbytes(), 11u);
  const std::vector<at::Tensor> mixed{at::zeros({1}, at::kFloat), at::zeros({4}, at::kByte)};
  EXPECT_EQ(room_for(mixed).scalar_type(), at::kByte) << "whatever comes to a multiple for several ranks";
  const std::vector<at::Tensor> even{at::zeros({2}, at::kDouble), at::zeros({3}, at::kDouble)};
  EXPECT_EQ(room_for(even).scalar_type(), at::kDouble);
  EXPECT_EQ(room_for(even).numel(), 5);
}

TEST(TensorBytes, AnExpandedTensorIsWrittenOnce) {
  const at::Tensor base = at::zeros({3, 1});
  const at::Tensor expanded = base.expand({2, 3, 4});
  EXPECT_TRUE(shares_elements(expanded));
  EXPECT_FALSE(shares_elements(base));
  EXPECT_FALSE(shares_elements(at::zeros({1}).expand({0, 1})));
  copy_each_once(expanded, at::arange(24, at::kFloat).reshape({2, 3, 4}));
  EXPECT_TRUE(at::equal(base.flatten(), at::tensor({0.0F, 4.0F, 8.0F})));
  copy_each_once(base, at::ones({3, 1}));
  EXPECT_TRUE(at::equal(base, at::ones({3, 1})));
}

TEST(TensorBytes, OneContiguousTensorIsNotCopied) {
  const at::Tensor tensor = at::arange(4, at::kFloat);
  const std::vector<at::Tensor> one{tensor};
  EXPECT_TRUE(joined_bytes(one).is_same(tensor));
  distribute_bytes(tensor, one);  // onto itself
  EXPECT_TRUE(at::equal(tensor, at::arange(4, at::kFloat)));
  EXPECT_TRUE(contiguous_output(tensor).is_same(tensor));
  const at::Tensor strided = at::zeros({3, 4}).t();
  EXPECT_TRUE(contiguous_output(strided).is_contiguous());
  EXPECT_FALSE(contiguous_output(strided).is_alias_of(strided));
}

}  // namespace
}  // namespace rueda
