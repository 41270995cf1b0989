// SPDX-License-Identifier: Apache-2.0
// Every level against plain arithmetic, and against each other bit by bit.
#include "ops/kernels/adasum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "ops/kernels/kernels.h"
#include "tests/support/conformance/values.h"

namespace rueda::kernels {
namespace {

class AdasumKernelsTest : public testing::TestWithParam<std::tuple<DataType, std::string_view>> {
 protected:
  DataType dtype_ = std::get<0>(GetParam());
  const AdasumKernels& kernels_ = adasum_kernels_at(std::get<1>(GetParam()), dtype_);
  const AdasumKernels& base_ = adasum_kernels_at("base", dtype_);
};

TEST_P(AdasumKernelsTest, ComputeAsPlainArithmeticDoes) {
  for (std::int64_t count : {0, 1, 3, 7, 8, 9, 31, 64, 100, 513, 1500}) {
    TestTensor a(dtype_, {count}), b(dtype_, {count});
    Products exact;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(i * 37 % 7 - 3), y = static_cast<double>(i * 11 % 5 - 2);
      a.set(i, x), b.set(i, y);
      exact.aa += x * x, exact.ab += x * y, exact.bb += y * y;
    }
    const Products products =
        kernels_.products(a.view().data, b.view().data, static_cast<std::size_t>(count));
    EXPECT_EQ(products.aa, exact.aa);  // of small whole numbers
    EXPECT_EQ(products.ab, exact.ab);
    EXPECT_EQ(products.bb, exact.bb);
    kernels_.combine(a.view().data, b.view().data, static_cast<std::size_t>(count), {0.5, -2.0});
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(a.get(i), 0.5 * static_cast<double>(i * 37 % 7 - 3) - 2.0 * b.get(i));
    EXPECT_TRUE(a.gaps_untouched() && b.gaps_untouched());
  }
}

// Products of float32 are exact in float64, sums of them nearly so.
TEST_P(AdasumKernelsTest, MultiplyInFloat64) {
  std::vector<float> a(100'000, 0.1f), b(100'000, 0.3f);
  if (dtype_ != DataType::float32) return;
  const Products products = kernels_.products(a.data(), b.data(), a.size());
  EXPECT_NEAR(products.ab, 100'000.0 * static_cast<double>(0.1f) * static_cast<double>(0.3f), 1e-8);
}

// Values of every kind, also where no vector begins.
TEST_P(AdasumKernelsTest, GiveTheSameBitsAtEveryLevel) {
  const std::size_t size = size_of(dtype_);
  constexpr std::size_t kCount = 2003;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> a((kCount + 5) * size), b(a.size());
    for (std::size_t i = 0; i < kCount + 5; ++i) {
      std::uint64_t x = random(), y = random();
      if (seed % 2 == 0) {  // none that is not finite
        x = std::bit_cast<std::uint64_t>(static_cast<double>(random() % 2001) - 1000 + 1e-9);
        const float narrow = static_cast<float>(std::bit_cast<double>(x)) / 3;
        if (size == 4) x = std::bit_cast<std::uint32_t>(narrow);
        y = x ^ (seed & 3);
      }
      std::memcpy(a.data() + i * size, &x, size);
      std::memcpy(b.data() + i * size, &y, size);
    }
    auto bits = [](const Products& products) {
      std::vector<std::uint64_t> words;
      for (double each : {products.aa, products.ab, products.bb})
        words.push_back(std::isnan(each) ? 1 : std::bit_cast<std::uint64_t>(each));
      return words;
    };
    for (std::size_t shift : {0, 1, 5}) {
      const std::size_t at = shift * size;
      ASSERT_EQ(bits(kernels_.products(a.data() + at, b.data() + at, kCount)),
                bits(base_.products(a.data() + at, b.data() + at, kCount)));
      for (const AdasumFactors& factors :
           {AdasumFactors{1, 1}, AdasumFactors{0.3, -1.7}, AdasumFactors{NAN, 1}}) {
        std::vector<std::byte> here = a, there = a;
        kernels_.combine(here.data() + at, b.data() + at, kCount, factors);
        base_.combine(there.data() + at, b.data() + at, kCount, factors);
        ASSERT_EQ(here, there);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, AdasumKernelsTest,
                         testing::Combine(testing::Values(DataType::float32, DataType::float64),
                                          testing::ValuesIn(available_levels().begin(),
                                                            available_levels().end())),
                         [](const auto& info) {
                           return std::string(to_string(std::get<0>(info.param))) + "_" +
                                  std::string(std::get<1>(info.param));
                         });

TEST(AdasumFactors, AreThoseOfASumAndOfAnAverage) {
  auto of = [](double aa, double ab, double bb) {
    const AdasumFactors factors = adasum_factors({aa, ab, bb});
    return std::pair(factors.a, factors.b);
  };
  EXPECT_EQ(of(4, 0, 9), std::pair(1.0, 1.0));    // orthogonal
  EXPECT_EQ(of(4, 4, 4), std::pair(0.5, 0.5));    // equal
  EXPECT_EQ(of(4, 8, 16), std::pair(0.0, 0.75));  // b = 2 a: 1.5 a
  EXPECT_EQ(of(0, 0, 9), std::pair(1.0, 1.0));    // zeros leave the other
  EXPECT_EQ(of(0, 0, 0), std::pair(1.0, 1.0));
  EXPECT_TRUE(std::isnan(of(NAN, NAN, 1).first) && std::isnan(of(NAN, NAN, 1).second));
}

}  // namespace
}  // namespace rueda::kernels
