// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/block_pool.h"

#include <gtest/gtest.h>

#include <new>

#include "core/engine/work.h"

namespace rueda {
namespace {

struct Point final : Fence {
  bool passed() const override { return open; }
  void hold_back(DeviceStream) const override {}
  bool open = false;
};

class BlockPoolTest : public testing::Test {
 protected:
  BlockPool pool_{[this](std::size_t bytes) {
    if (bytes > most_) throw std::bad_alloc();
    ++made_;
    return std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
  }};
  std::size_t most_ = SIZE_MAX;
  int made_ = 0;
};

TEST_F(BlockPoolTest, ABlockIsFreeWhenItsFenceHasBeenPassed) {
  const auto point = std::make_shared<Point>();
  BlockPool::Block first = pool_.take("a test", 1000);
  const std::byte* const address = first.data();
  pool_.give_back(std::move(first), point);
  BlockPool::Block second = pool_.take("a test", 1000);
  EXPECT_NE(second.data(), address);
  point->open = true;
  EXPECT_EQ(pool_.take("a test", 2000).data(), address);
  EXPECT_EQ(made_, 2);
}

TEST_F(BlockPoolTest, TakesTheSmallestThatIsLargeEnough) {
  BlockPool::Block large = pool_.take("a test", 1 << 20), small = pool_.take("a test", 100 << 10);
  const std::byte* const address = small.data();
  pool_.give_back(std::move(large), nullptr);
  pool_.give_back(std::move(small), nullptr);
  EXPECT_EQ(pool_.take("a test", 70 << 10).data(), address);
}

TEST_F(BlockPoolTest, WhatIsMissingIsAFailureOfTheWork) {
  pool_.give_back(pool_.take("a test", 100 << 10), nullptr);
  most_ = 300 << 10;
  EXPECT_EQ(pool_.take("a test", 300 << 10).bytes, std::size_t{300} << 10) << "not rounded up, then";
  try {
    pool_.take("its tensors", 1 << 20);
    FAIL();
  } catch (const WorkFailure& failure) {
    EXPECT_EQ(failure.what, "it has no memory for its tensors, 1048576 bytes");
  }
}

}  // namespace
}  // namespace rueda
