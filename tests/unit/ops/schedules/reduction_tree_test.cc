// SPDX-License-Identifier: Apache-2.0
#include "ops/schedules/reduction_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/conformance/tree_sum.h"
#include "tests/support/conformance/values.h"

namespace rueda {
namespace {

// Numbers of different sizes, so that sums are rounded.
float number(std::size_t member, std::size_t i) {
  return std::sin(static_cast<float>(member * 37 + i * 11 + 1)) *
         std::exp2(static_cast<float>((member * 5 + i) % 9));
}

std::vector<const std::byte*> pointers(const auto& members) {
  std::vector<const std::byte*> result;
  for (const auto& values : members) result.push_back(reinterpret_cast<const std::byte*>(values.data()));
  return result;
}

// Into all of `sum`, its first values apart from the others.
void combine(auto& sum, const ScaledReduction& reduction, const std::vector<const std::byte*>& copies) {
  constexpr std::size_t kFirst = 3;
  auto* to = reinterpret_cast<std::byte*>(sum.data());
  const ReductionTree tree(reduction);
  tree.combine(to, copies, 0, kFirst);
  std::vector<std::byte> rest(ReductionTree::kBlockBytes);
  tree.combine(rest.data(), copies, kFirst * size_of(reduction.dtype), sum.size() - kFirst);
  std::memcpy(to + kFirst * sizeof sum.front(), rest.data(), (sum.size() - kFirst) * sizeof sum.front());
}

TEST(ReductionTree, PutsThePowerOfTwoOnTheLeft) {
  const std::vector<std::size_t> left{1, 2, 2, 4, 4, 4, 4, 8, 8};  // of 2, 3, ...
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_EQ(left_of_root(i + 2), left[i]);
  EXPECT_EQ(left_of_root(256), 128u);
}

TEST(ReductionTree, CombinesAsAPlainRecursionDoes) {
  constexpr std::size_t kElements = 100;
  for (const std::size_t members : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 100, 256}) {
    std::vector<std::vector<float>> singles(members, std::vector<float>(kElements));
    std::vector<std::vector<std::uint16_t>> halves(members, std::vector<std::uint16_t>(kElements));
    for (std::size_t member = 0; member < members; ++member) {
      for (std::size_t i = 0; i < kElements; ++i) {
        singles[member][i] = number(member, i);
        halves[member][i] = float_to_bfloat16(number(member, i));
      }
    }
    std::vector<float> of_singles(kElements), of_halves(kElements);
    combine(of_singles, {DataType::float32, ReduceOp::average, {3.0, 1}}, pointers(singles));
    combine(of_halves, {DataType::bfloat16}, pointers(halves));
    std::size_t differ = 0;
    for (std::size_t i = 0; i < kElements; ++i) {
      auto single = [&](std::size_t member) { return singles[member][i] * 3.0F; };
      auto half = [&](std::size_t member) { return bfloat16_to_float(halves[member][i]); };
      ASSERT_EQ(of_singles[i], tree_sum(single, 0, members)) << members << ", " << i;
      ASSERT_EQ(of_halves[i], tree_sum(half, 0, members)) << members << ", " << i;
      float in_turn = single(0);
      for (std::size_t member = 1; member < members; ++member) in_turn += single(member);
      differ += in_turn != of_singles[i] ? 1 : 0;
    }
    EXPECT_EQ(differ > 0, members > 3) << members;  // so another order would be seen
  }
}

TEST(ReductionTree, ASubtreeMayBeCombinedBefore) {
  constexpr std::size_t kElements = 64, kShards = 8;
  std::vector<std::vector<float>> shards(kShards, std::vector<float>(kElements));
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    for (std::size_t i = 0; i < kElements; ++i) shards[shard][i] = number(shard, i);
  }
  auto combined = [](const std::vector<const std::byte*>& copies) {
    std::vector<float> sum(kElements);
    combine(sum, {}, copies);
    return sum;
  };
  const std::vector<const std::byte*> all = pointers(shards);
  for (const std::size_t each : {2, 4}) {
    std::vector<std::vector<float>> parts;
    for (std::size_t first = 0; first < kShards; first += each) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      parts.push_back(combined({begin, begin + static_cast<std::ptrdiff_t>(each)}));
    }
    EXPECT_EQ(combined(pointers(parts)), combined(all)) << each;
  }
}

TEST(ReductionTree, TakesBlocksOfAnyType) {
  const std::vector<double> values(ReductionTree::kBlockBytes / sizeof(double), 1.5);
  const std::vector<std::uint8_t> bytes(ReductionTree::kBlockBytes, 3);
  std::vector<double> sum(values.size());
  std::vector<std::uint8_t> bytes_sum(bytes.size());
  combine(sum, {DataType::float64}, pointers(std::vector(7, values)));
  combine(bytes_sum, {DataType::uint8, ReduceOp::product}, pointers(std::vector(4, bytes)));
  EXPECT_EQ(sum, std::vector(sum.size(), 10.5));
  EXPECT_EQ(bytes_sum, std::vector<std::uint8_t>(bytes.size(), 81));
}

}  // namespace
}  // namespace rueda
