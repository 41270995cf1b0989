// SPDX-License-Identifier: Apache-2.0
// Tensors that torch says are on a CUDA device, without one: their memory is the host's, and what torch knows
// of streams is the test's.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gmock/gmock.h>

#include "core/base/error.h"
#include "core/engine/submissions/submission.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "rueda/torch/collectives/operations.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Purpose: one device, whose current stream has the handle 0x1234.
struct TestGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {c10::DeviceType::CUDA, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 7);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return stream.id() == 7 ? reinterpret_cast<void*>(0x1234) : nullptr;
  }
};

class DeviceTensorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA))
      GTEST_SKIP() << "torch has CUDA in this process";
    registry() = &guard_;
  }
  void TearDown() override {
    if (registry() == &guard_) registry() = nullptr;
  }

  at::Tensor on_device(c10::IntArrayRef sizes, c10::IntArrayRef strides = {}, c10::DeviceIndex device = 0) {
    c10::Storage storage(c10::Storage::use_byte_size_t(), sizeof values_,
                         c10::DataPtr(values_, {c10::DeviceType::CUDA, device}));
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), caffe2::TypeMeta::Make<float>());
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    if (!strides.empty()) tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return tensor;
  }

  float values_[64] = {};

 private:
  static std::atomic<const c10::impl::DeviceGuardImplInterface*>& registry() {
    return c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::CUDA)];
  }
  TestGuard guard_;
};

TEST_F(DeviceTensorTest, ASubmissionCarriesItsDeviceAndStream) {
  const at::Tensor tensor = on_device({2, 3});
  const auto tensors = std::make_shared<OperationTensors>(tensor, tensor);
  const Submission submission = submission_for(Operation::allreduce, "sum", tensors);
  EXPECT_EQ(submission.request.device, DeviceKind::cuda);
  EXPECT_EQ(submission.request.shape, (Shape{2, 3}));
  EXPECT_EQ(submission.device, 0);
  EXPECT_EQ(submission.stream, reinterpret_cast<void*>(0x1234));
  EXPECT_EQ(submission.input.data, values_);
  EXPECT_EQ(submission.output.data, values_);
  EXPECT_EQ(submission.owner, tensors);
  EXPECT_FALSE(submission.allocate);
}

TEST_F(DeviceTensorTest, AnOutputThatIsNotKnownIsAllocatedThere) {
  const Submission submission = submission_for(
      Operation::allgather, "g", std::make_shared<OperationTensors>(on_device({4}), at::Tensor()));
  EXPECT_TRUE(submission.allocate);
  EXPECT_EQ(submission.output.data, nullptr);
}

TEST_F(DeviceTensorTest, WhatIsWrittenMayHaveNoGaps) {
  const at::Tensor gaps = on_device({2, 3}, {1, 2});
  const auto tensors = std::make_shared<OperationTensors>(gaps, gaps);
  EXPECT_THAT(
      [&] { submission_for(Operation::allreduce, "layer.weight", tensors); },
      ThrowsMessage<InvalidArgument>(HasSubstr("'layer.weight' is on a device, and is to be written where it "
                                               "has gaps; copy it by contiguous() first")));
}

TEST_F(DeviceTensorTest, BothTensorsAreOnOneDevice) {
  const auto tensors = std::make_shared<OperationTensors>(on_device({4}), on_device({4}, {}, 1));
  EXPECT_THAT([&] { submission_for(Operation::broadcast, "b", tensors); },
              ThrowsMessage<InvalidArgument>(HasSubstr("is on the device cuda:0, and its output on cuda:1")));
}

TEST_F(DeviceTensorTest, WhatTakesTheHostsMemoryAloneSaysSo) {
  EXPECT_THAT([&] { read_view(on_device({4}), "weight"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("'weight' is on the device cuda:0")));
}

}  // namespace
}  // namespace rueda
