// SPDX-License-Identifier: Apache-2.0
#include "ops/compression/topk_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace rueda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> some_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    switch (random() % 4) {
      case 0: value = static_cast<float>(static_cast<int>(random() % 9) - 4); break;  // many are equal
      case 1: value = std::ldexp(1.0f, static_cast<int>(random() % 250) - 140); break;
      default: value = static_cast<float>(random()) / 1e9f - 2.0f;
    }
  }
  return values;
}

TEST(Largest, ShareIsRoundedUp) {
  EXPECT_EQ(picked_of(0.01, 0), 0);
  EXPECT_EQ(picked_of(0.01, 1), 1);
  EXPECT_EQ(picked_of(0.01, 100), 1);
  EXPECT_EQ(picked_of(0.01, 101), 2);
  EXPECT_EQ(picked_of(1e-300, 1000), 1);
  EXPECT_EQ(picked_of(1.0, 12345), 12345);
}

// As a stable sort by magnitude would pick them; and nothing gets lost.
TEST(Largest, ArePickedInTheOrderOfTheirIndices) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::size_t count = 1 + seed * seed;
    const std::vector<float> values = some_values(count, seed);
    for (const std::size_t most : {std::size_t{1}, (count + 9) / 10, (count + 1) / 2, count}) {
      std::vector<std::uint32_t> order(count);
      std::iota(order.begin(), order.end(), 0u);
      std::ranges::stable_sort(order, std::greater<>(), [&](std::uint32_t i) { return std::abs(values[i]); });
      order.resize(most);
      std::ranges::sort(order);
      std::vector<float> left = values;
      std::vector<Picked> picked(most);
      pick_largest(left, picked);
      for (std::size_t i = 0; i < most; ++i) {
        ASSERT_EQ(picked[i].index, order[i]) << "seed " << seed << ", " << most << " of " << count;
        ASSERT_EQ(left[order[i]], 0.0f);
      }
      ASSERT_TRUE(add_picked(left, picked));
      ASSERT_EQ(left, values);
    }
  }
}

// It travels first, and what of it does not is not kept back.
TEST(Largest, WhatIsNotFiniteDoesNotComeBack) {
  std::vector<float> values{1.0f, kInfinity, -3.0f, std::nanf(""), -kInfinity, 2.0f};
  std::vector<Picked> picked(1);
  pick_largest(values, picked);
  EXPECT_EQ(picked[0].index, 3u);
  EXPECT_TRUE(std::isnan(picked[0].value));
  EXPECT_EQ(values, (std::vector<float>{1.0f, 0.0f, -3.0f, 0.0f, 0.0f, 2.0f}));
}

TEST(Largest, NothingIsAddedOutsideOfTheRun) {
  std::vector<float> sums(4, 1.0f);
  EXPECT_TRUE(add_picked(sums, std::vector<Picked>{{0, 1.0f}, {3, 2.0f}}));
  EXPECT_EQ(sums, (std::vector<float>{2.0f, 1.0f, 1.0f, 3.0f}));
  EXPECT_FALSE(add_picked(sums, std::vector<Picked>{{4, 1.0f}}));
  EXPECT_FALSE(add_picked(sums, std::vector<Picked>{{0xffffffffu, 1.0f}}));
}

}  // namespace
}  // namespace rueda
