// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/collectives/tensor_adapter.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "core/engine/submissions/submission.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TensorAdapter, KnowsEveryDataType) {
  for (std::uint8_t i = 0; i < kDataTypeCount; ++i) {
    const DataType dtype = *data_type_from(i);
    const at::Tensor tensor = at::zeros({2, 3}, at::TensorOptions(scalar_type_for(dtype)));
    const TensorView view = write_view(tensor, "tensor");
    EXPECT_EQ(view.dtype, dtype);
    EXPECT_EQ(view.bytes(), tensor.nbytes());
    EXPECT_EQ(view.data, tensor.data_ptr());
  }
}

TEST(TensorAdapter, KeepsStrides) {
  const at::Tensor tensor = at::zeros({4, 3}).t();
  const TensorView view = write_view(tensor, "tensor");
  EXPECT_EQ(view.shape, (Shape{3, 4}));
  EXPECT_EQ(view.strides, (Strides{1, 3}));
  EXPECT_TRUE(write_view(at::zeros({4, 3}), "tensor").strides.empty());
}

TEST(TensorAdapter, TakesScalarsAndNothing) {
  EXPECT_EQ(write_view(at::zeros({}), "scalar").elements(), 1);
  EXPECT_EQ(read_view(at::zeros({0, 3}), "nothing").elements(), 0);
}

TEST(TensorAdapter, RefusesWhatItCannotMove) {
  const auto refusal = [](const at::Tensor& tensor) {
    return [tensor] { write_view(tensor, "layer.weight"); };
  };
  const auto says = [](const char* what, const char* remedy) {
    return ThrowsMessage<InvalidArgument>(
        AllOf(HasSubstr("layer.weight"), HasSubstr(what), HasSubstr(remedy)));
  };
  EXPECT_THAT(refusal({}), says("undefined", "give it a value"));
  EXPECT_THAT(refusal(at::zeros({2}, at::kComplexFloat)), says("ComplexFloat", "view_as_real"));
  EXPECT_THAT(refusal(at::zeros({2}).to_sparse()), says("Sparse", "to_dense()"));
  EXPECT_THAT(refusal(at::empty({2}, at::TensorOptions(at::kMeta))), says("meta", "cpu()"));
  EXPECT_THAT(refusal(at::zeros({1}).expand({2})), says("share memory", "contiguous()"));
  EXPECT_EQ(read_view(at::zeros({1}).expand({2}), "read only").strides, (Strides{0}));
}

TEST(TensorAdapter, SubmissionReadsAndWritesItsTensors) {
  const at::Tensor tensor = at::ones({3});
  auto tensors = std::make_shared<OperationTensors>(tensor, tensor);
  const Submission in_place = submission_for(Operation::allreduce, "sum", tensors);
  EXPECT_EQ(in_place.input.data, in_place.output.data);
  EXPECT_EQ(in_place.request.shape, (Shape{3}));
  EXPECT_EQ(in_place.owner, tensors);
  EXPECT_FALSE(in_place.allocate);

  tensors = std::make_shared<OperationTensors>(tensor, at::Tensor());
  const Submission gather = submission_for(Operation::allgather, "gather", tensors);
  const TensorView made = gather.allocate(DataType::float32, {6});
  EXPECT_EQ(made.data, tensors->output.data_ptr());
  EXPECT_EQ(tensors->output.sizes(), at::IntArrayRef({6}));
}

TEST(TensorAdapter, MarkingMakesBackwardRefuse) {
  const at::Tensor weight = at::ones({2}).requires_grad_(true);
  const at::Tensor input = at::ones({2});
  const at::Tensor loss = (weight * input).sum();
  mark_changed(input);
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace rueda
