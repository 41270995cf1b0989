// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/gradient_allocator.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tests/support/training/regression.h"

namespace rueda {
namespace {

constexpr std::size_t kBytes = 100'000 * sizeof(double);

// Purpose: ordinary memory that counts what is there.
class CountedMemory final : public SymmetricMemory {
 public:
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    if (bytes > most) return nullptr;
    auto* memory = static_cast<std::byte*>(std::calloc(bytes + 1, 1));
    begin = memory, end = memory + bytes;
    ++blocks;
    return {memory, [this](std::byte* gone) {
              std::free(gone);
              --blocks;
            }};
  }
  bool contains(const void* memory, std::size_t bytes) const override {
    const auto* from = static_cast<const std::byte*>(memory);
    return from >= begin && from + bytes <= end;
  }
  Block share(std::size_t) override { return {}; }
  std::shared_ptr<std::byte> open(const std::string&) override { return nullptr; }

  std::size_t most = 1 << 30;
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  int blocks = 0;
};

class GradientAllocatorTest : public testing::Test {
 protected:
  bool holds(const at::Tensor& tensor) const {
    return counted_->contains(tensor.const_data_ptr(), tensor.nbytes());
  }

  // Runs `inside` in a backward pass.
  static void in_a_backward_pass(const std::function<void()>& inside) {
    const at::Tensor leaf = make_parameter({3}, 1);
    at::Tensor product = leaf * 2;
    product.register_hook([&](const at::Tensor&) { inside(); });
    product.sum().backward();
  }

  const std::shared_ptr<CountedMemory> counted_ = std::make_shared<CountedMemory>();
  std::shared_ptr<GradientAllocator> memory_ = std::make_shared<GradientAllocator>(counted_);
};

TEST_F(GradientAllocatorTest, ServesBackwardPassesOfItsThreadOnly) {
  ASSERT_TRUE(memory_->add({kBytes, 64, 0}));
  memory_->serve_this_thread();
  memory_->serve_this_thread();
  EXPECT_FALSE(holds(at::empty({100'000}, at::kDouble)));
  in_a_backward_pass([&] {
    const at::Tensor first = at::empty({100'000}, at::kDouble), second = at::empty({100'000}, at::kDouble);
    EXPECT_TRUE(holds(first));
    EXPECT_FALSE(holds(second));
    EXPECT_FALSE(holds(at::empty({100'001}, at::kDouble)));
    EXPECT_EQ(at::empty({0}, at::kDouble).numel(), 0);
  });
  in_a_backward_pass([&] { EXPECT_TRUE(holds(at::zeros({10'000, 10}, at::kDouble))); });  // it came back
  std::thread([&] {
    in_a_backward_pass([&] { EXPECT_FALSE(holds(at::empty({100'000}, at::kDouble))); });
  }).join();
}

TEST_F(GradientAllocatorTest, AutogradMakesAGradientInIt) {
  const at::Tensor weight = make_parameter({100'000}, 1);
  ASSERT_TRUE(memory_->add({kBytes, kBytes, kBytes}));
  memory_->serve_this_thread();
  (weight * weight).sum().backward();
  EXPECT_TRUE(holds(weight.grad()));
  EXPECT_TRUE(at::equal(weight.grad(), 2 * weight.detach()));
}

TEST_F(GradientAllocatorTest, BlocksOutliveItWithTheirTensors) {
  ASSERT_TRUE(memory_->add({kBytes, kBytes}));
  memory_->serve_this_thread();
  at::Tensor kept;
  in_a_backward_pass([&] { kept = at::full({100'000}, 7, at::kDouble); });
  ASSERT_TRUE(holds(kept));
  memory_.reset();
  EXPECT_EQ(counted_->blocks, 1);
  in_a_backward_pass([&] { EXPECT_FALSE(holds(at::empty({100'000}, at::kDouble))); });
  EXPECT_EQ(kept.sum().item<double>(), 700'000);
  std::thread([&] { kept.reset(); }).join();
  EXPECT_EQ(counted_->blocks, 0);
}

TEST_F(GradientAllocatorTest, TensorsOfItCanDoWhatTensorsDo) {
  ASSERT_TRUE(memory_->add({kBytes}));
  memory_->serve_this_thread();
  in_a_backward_pass([&] {
    at::Tensor tensor = at::full({100'000}, 3, at::kDouble);
    EXPECT_TRUE(holds(tensor));
    tensor.resize_({200'000});
    EXPECT_FALSE(holds(tensor));
    EXPECT_EQ(tensor.narrow(0, 0, 100'000).sum().item<double>(), 300'000);
    const at::Tensor again = at::full({100'000}, 4, at::kDouble);
    EXPECT_TRUE(holds(again));
    const at::Tensor lazy = at::_lazy_clone(again);
    again.fill_(5);
    EXPECT_EQ(lazy.sum().item<double>(), 400'000);
  });
}

TEST_F(GradientAllocatorTest, RawMemoryComesAndGoes) {
  ASSERT_TRUE(memory_->add({kBytes}));
  memory_->serve_this_thread();
  in_a_backward_pass([&] {
    for (int round = 0; round < 3; ++round) {
      void* const ours = c10::GetCPUAllocator()->raw_allocate(kBytes);
      void* const theirs = c10::GetCPUAllocator()->raw_allocate(kBytes);
      EXPECT_TRUE(counted_->contains(ours, kBytes));
      EXPECT_FALSE(counted_->contains(theirs, kBytes));
      c10::GetCPUAllocator()->raw_deallocate(ours);
      c10::GetCPUAllocator()->raw_deallocate(theirs);
    }
  });
}

TEST_F(GradientAllocatorTest, SaysWhenThereIsNoMore) {
  counted_->most = kBytes;
  EXPECT_FALSE(memory_->add({kBytes, 64}));
  EXPECT_EQ(memory_->bytes(), 0);
  EXPECT_EQ(memory_->take(kBytes), nullptr);
  EXPECT_TRUE(memory_->add({kBytes - 64, 1}));
  EXPECT_EQ(memory_->bytes(), kBytes);
  EXPECT_TRUE(GradientAllocator::give_back(memory_->take(1)));
  EXPECT_NE(memory_->take(1), nullptr);
}

}  // namespace
}  // namespace rueda
