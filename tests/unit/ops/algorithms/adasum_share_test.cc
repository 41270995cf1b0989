// SPDX-License-Identifier: Apache-2.0
// Who is combined with whom, who computes what, and that together it is Adasum.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "ops/algorithms/adasum.h"
#include "tests/support/conformance/adasum_reference.h"
#include "tests/support/conformance/tree_sum.h"

namespace rueda {
namespace {

using Pairs = std::vector<AdasumPair>;

TEST(Adasum, LevelsFoldWhatIsBeyondAPowerOfTwoThenHalve) {
  using testing::ElementsAre;
  EXPECT_TRUE(adasum_levels(1).empty());
  EXPECT_THAT(adasum_levels(2), ElementsAre(Pairs{{0, 1}}));
  EXPECT_THAT(adasum_levels(3), ElementsAre(Pairs{{0, 2}}, Pairs{{0, 1}}));
  EXPECT_THAT(adasum_levels(4), ElementsAre(Pairs{{0, 1}, {2, 3}}, Pairs{{0, 2}}));
  EXPECT_THAT(adasum_levels(7),
              ElementsAre(Pairs{{0, 4}, {1, 5}, {2, 6}}, Pairs{{0, 1}, {2, 3}}, Pairs{{0, 2}}));
  EXPECT_THAT(adasum_levels(8),
              ElementsAre(Pairs{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, Pairs{{0, 2}, {4, 6}}, Pairs{{0, 4}}));
}

TEST(Adasum, EachRankButTheFirstIsUsedUpOnce) {
  for (Rank size = 1; size <= 70; ++size) {
    std::vector<bool> there(static_cast<std::size_t>(size), true);
    for (const Pairs& level : adasum_levels(size)) {
      std::vector<bool> busy(there.size(), false);
      for (const AdasumPair& pair : level) {
        ASSERT_TRUE(there[pair.into] && there[pair.from] && !busy[pair.into] && !busy[pair.from]);
        busy[pair.into] = busy[pair.from] = true;
        there[pair.from] = false;
      }
    }
    EXPECT_TRUE(there[0]);
    EXPECT_EQ(std::ranges::count(there, true), 1);
  }
}

Plan plan_of(DataType dtype, const std::vector<std::int64_t>& sizes) {
  Plan plan;
  plan.reduce_op = ReduceOp::adasum;
  plan.dtype = dtype;
  for (std::int64_t elements : sizes) {
    Request request;
    request.dtype = dtype;
    request.shape = {elements};
    assign_offset(plan, plan.tensors.emplace_back(0, true, std::make_shared<const Request>(request)));
  }
  return plan;
}

TEST(Adasum, PartsAreDisjointAndEvenAndAll) {
  const Plan plan = plan_of(DataType::float32, {1000, 0, 1, 7, 40'000});
  for (Rank size = 1; size < 12; ++size) {
    std::vector<std::vector<int>> seen;
    for (const PlanTensor& tensor : plan.tensors) seen.emplace_back(tensor.elements());
    for (Rank index = 0; index < size; ++index) {
      TensorSegments parts(plan, index, size);
      std::int64_t all = 0;
      for (auto part = parts.next(300); part.count > 0; part = parts.next(300)) {
        ASSERT_LE(part.count, 300);
        all += part.count;
        for (std::int64_t i = 0; i < part.count; ++i) ++seen[part.tensor].at(part.begin + i);
      }
      EXPECT_EQ(all, parts.elements());
      EXPECT_NEAR(static_cast<double>(all), 41'008.0 / size, 5);
    }
    for (const auto& tensor : seen) EXPECT_EQ(tensor, std::vector<int>(tensor.size(), 1));
  }
}

std::vector<float> random_vector(std::int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.2f, 1.0f);
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = normal(random);
  return values;
}

// All ranks of one Plan, by hand. tensors[rank][tensor].
std::vector<std::vector<float>> run(const Plan& plan,
                                    const std::vector<std::vector<std::vector<float>>>& tensors) {
  const auto size = static_cast<Rank>(tensors.size());
  std::vector<std::unique_ptr<AdasumShare>> shares;
  const Memory memory;
  for (Rank index = 0; index < size; ++index) {
    AdasumShare& share = *shares.emplace_back(std::make_unique<AdasumShare>(plan, index, size));
    EXPECT_EQ(share.of(0), nullptr);
    share.prepare(memory);
    for (Rank from = 0; from < size; ++from) {
      TensorSegments parts(plan, index, size);
      std::int64_t at = 0;
      for (auto part = parts.next(100); part.count > 0; part = parts.next(100)) {
        share.load(from, at, tensors[from][part.tensor].data() + part.begin, part.count);
        at += part.count;
      }
    }
  }
  for (std::size_t level = 0; level < shares[0]->levels(); ++level) {
    for (auto& share : shares) {
      while (share->multiply()) continue;
    }
    for (std::size_t i = 0; i < shares[0]->numbers(level); ++i) {
      const double sum =
          tree_sum([&](std::size_t rank) { return shares[rank]->data()[i]; }, 0, shares.size());
      for (auto& share : shares) share->data()[i] = sum;
    }
    for (auto& share : shares) {
      while (share->combine()) continue;
      EXPECT_EQ(share->level(), level + 1);
    }
  }
  std::vector<std::vector<float>> result = tensors[0];
  for (Rank index = 0; index < size; ++index) {
    TensorSegments parts(plan, index, size);
    std::int64_t at = 0;
    for (auto part = parts.next(1000); part.count > 0; part = parts.next(1000)) {
      shares[index]->store(result[part.tensor].data() + part.begin, at, part.count);
      at += part.count;
    }
  }
  return result;
}

TEST(Adasum, OfSharesIsThatOfWholeTensorsAndDoesNotDependOnOthers) {
  const std::vector<std::int64_t> sizes{1000, 0, 1, 7, 300'000, 5};
  for (Rank size : {1, 2, 3, 4, 5, 7, 8, 13}) {
    std::vector<std::vector<std::vector<float>>> tensors(size);
    for (Rank rank = 0; rank < size; ++rank) {
      for (std::size_t i = 0; i < sizes.size(); ++i)
        tensors[rank].push_back(
            random_vector(sizes[i], static_cast<unsigned>(rank * 100 + static_cast<Rank>(i))));
    }
    const auto result = run(plan_of(DataType::float32, sizes), tensors);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<Vector> vectors;
      std::vector<std::vector<std::vector<float>>> alone;
      for (Rank rank = 0; rank < size; ++rank) {
        vectors.emplace_back(tensors[rank][i].begin(), tensors[rank][i].end());
        alone.push_back({tensors[rank][i]});
      }
      const Vector expected = adasum_of(vectors);
      for (std::size_t e = 0; e < expected.size(); ++e) ASSERT_NEAR(result[i][e], expected[e], 1e-5);
      EXPECT_EQ(run(plan_of(DataType::float32, {sizes[i]}), alone)[0], result[i]) << "alone: the same bits";
    }
  }
}

}  // namespace
}  // namespace rueda
