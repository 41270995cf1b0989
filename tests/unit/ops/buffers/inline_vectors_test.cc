// SPDX-License-Identifier: Apache-2.0
#include "ops/buffers/inline_vectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>

namespace rueda {
namespace {

bool inside(const InlineVectors& lists, const void* memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(&lists);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  return at >= begin && at < begin + sizeof lists;
}

TEST(InlineVectors, ShortOnesLieInsideTheObject) {
  InlineVectors lists;
  InlineVector<std::uint64_t> a(lists, 2), b(lists, 3);
  for (std::uint64_t i = 0; i < 2; ++i) a.emplace_back(i);
  for (std::uint64_t i = 0; i < 3; ++i) b.emplace_back(10 + i);
  EXPECT_TRUE(inside(lists, a.all().data()));
  EXPECT_TRUE(inside(lists, b.all().data()));
  EXPECT_EQ(a[1], 1U);
  EXPECT_EQ(b[0], 10U);
  EXPECT_EQ(b[2], 12U);
}

TEST(InlineVectors, LongOnesLieElsewhereAndLeaveTheRoomToOthers) {
  InlineVectors lists;
  InlineVector<std::uint32_t> many(lists, 10'000), few(lists, 4);
  for (std::uint32_t i = 0; i < 10'000; ++i) many.emplace_back(i);
  few.emplace_back(7U);
  EXPECT_FALSE(inside(lists, many.all().data()));
  EXPECT_TRUE(inside(lists, few.all().data()));
  EXPECT_EQ(std::accumulate(many.all().begin(), many.all().end(), std::uint64_t{0}), 49'995'000U);
}

TEST(InlineVectors, AreAsAlignedAsAnything) {
  InlineVectors lists;
  for (std::size_t bytes : {1U, 3U, 17U, 40U, 4000U, 5U}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lists.take(bytes)) % alignof(std::max_align_t), 0U);
  }
}

TEST(InlineVector, EndsItsElements) {
  const auto counted = std::make_shared<int>(0);
  InlineVectors lists;
  {
    InlineVector<std::shared_ptr<int>> list(lists, 3);
    for (int i = 0; i < 3; ++i) list.emplace_back(counted);
    EXPECT_EQ(counted.use_count(), 4);
    list.clear();
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(counted.use_count(), 1);
    list.emplace_back(counted);
    EXPECT_EQ(list.size(), 1U);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(InlineVector, MayGetItsRoomLater) {
  InlineVectors lists;
  InlineVector<int> list, none(lists, 0);
  EXPECT_TRUE(list.empty() && none.empty());
  list.get_room(lists, 2);
  list.emplace_back(3);
  list.get_room(lists, 2);  // it has some
  list.emplace_back(4);
  EXPECT_EQ(list[0], 3);
  EXPECT_EQ(list[1], 4);
}

}  // namespace
}  // namespace rueda
