// SPDX-License-Identifier: Apache-2.0
// Every level against plain scalar arithmetic, and against each other bit by bit.
#include "ops/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "tests/support/values.h"

namespace rueda::kernels {
namespace {

std::vector<DataType> all_dtypes() {
  std::vector<DataType> dtypes;
  for (std::uint8_t i = 0; i < kDataTypeCount; ++i) dtypes.push_back(*data_type_from(i));
  return dtypes;
}

// Random bytes are values of every kind: subnormals, infinities and NaNs of floats, overflowing integers.
std::vector<std::byte> random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class KernelsTest : public testing::TestWithParam<std::tuple<DataType, std::string_view>> {
 protected:
  DataType dtype_ = std::get<0>(GetParam());
  std::string_view level_ = std::get<1>(GetParam());
  DataType acc_ = accumulator_of(dtype_);
  const Kernels& kernels_ = kernels_at(level_, dtype_);
};

// A few values that fit every dtype and whose sums and products stay exact.
double sample(DataType dtype, std::int64_t i, int salt) {
  const auto mixed = static_cast<std::int64_t>((i * 37 + salt * 11 + i / 13) % 7);
  return dtype == DataType::boolean ? static_cast<double>(mixed % 2) : dtype == DataType::uint8 ? static_cast<double>(mixed) : static_cast<double>(mixed - 3);
}

TEST_P(KernelsTest, CombinesAsPlainArithmeticDoes) {
  for (std::int64_t count : {0, 1, 3, 7, 8, 9, 31, 64, 100, 513, 1500}) {
    TestTensor acc(acc_, {count}), values(dtype_, {count});
    for (std::uint8_t number = 0; number < kReduceOpCount; ++number) {
      const ReduceOp op = *reduce_op_from(number);
      for (std::int64_t i = 0; i < count; ++i) acc.set(i, sample(dtype_, i, 1)), values.set(i, sample(dtype_, i, 2));
      kernels_.combine(op, acc.view().data, values.view().data, static_cast<std::size_t>(count), {});
      for (std::int64_t i = 0; i < count; ++i) {
        const double a = sample(dtype_, i, 1), b = sample(dtype_, i, 2);
        const bool sums = op == ReduceOp::sum || op == ReduceOp::average;
        const double expected = sums ? (dtype_ == DataType::boolean ? std::max(a, b) : a + b)
                                : op == ReduceOp::min ? std::min(a, b) : op == ReduceOp::max ? std::max(a, b) : a * b;
        ASSERT_EQ(acc.get(i), expected) << to_string(op) << " " << a << " " << b;
      }
      ASSERT_TRUE(acc.gaps_untouched() && values.gaps_untouched());
    }
  }
}

TEST_P(KernelsTest, LoadAndStoreScale) {
  constexpr std::int64_t kCount = 777;
  TestTensor acc(acc_, {kCount}), values(dtype_, {kCount});
  for (std::int64_t i = 0; i < kCount; ++i) values.set(i, sample(dtype_, i, 3));
  const bool scalable = dtype_ != DataType::boolean;
  for (const Scale& scale : {Scale{}, Scale{2.0, 1}, Scale{1.0, 3}, Scale{0.5, 2}}) {
    if (!scalable && !scale.identity()) continue;
    kernels_.load(acc.view().data, values.view().data, kCount, scale);
    TestTensor stored(dtype_, {kCount});
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double exact = sample(dtype_, i, 3) * scale.factor / static_cast<double>(scale.divisor);
      ASSERT_NEAR(acc.get(i), is_integer(dtype_) ? std::trunc(exact) : exact, 1e-6);
      acc.set(i, sample(dtype_, i, 3));
    }
    kernels_.store(stored.view().data, acc.view().data, kCount, scale);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double exact = sample(dtype_, i, 3) * scale.factor / static_cast<double>(scale.divisor);
      ASSERT_NEAR(stored.get(i), is_integer(dtype_) ? std::trunc(exact) : exact, std::abs(exact) * relative_tolerance(dtype_));
    }
  }
}

TEST_P(KernelsTest, EveryLevelGivesTheSameBitsAtEveryAlignment) {
  constexpr std::size_t kCount = 3000;
  const std::size_t size = size_of(dtype_), wide = size_of(acc_);
  for (std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{5}}) {
    for (std::uint8_t number = 0; number < kReduceOpCount; ++number) {
      for (const Scale& scale : {Scale{}, Scale{0.3, 1}, Scale{1.0, 7}}) {
        if (dtype_ == DataType::boolean && !scale.identity()) continue;
        std::vector<std::byte> values = random_bytes((kCount + shift) * size, 1), acc((kCount + shift) * wide), out(kCount * size);
        std::vector<std::byte> plain_acc = acc, plain_out = out;
        auto run = [&](const Kernels& kernels, std::byte* sums, std::byte* results) {
          kernels.load(sums, values.data() + shift * size, kCount, scale);
          std::vector<std::byte> other = random_bytes((kCount + shift) * size, 2);
          kernels.combine(*reduce_op_from(number), sums, other.data() + shift * size, kCount, scale);
          kernels.store(results, sums, kCount, scale);
        };
        run(kernels_, acc.data() + shift * wide, out.data());
        run(kernels_at("base", dtype_), plain_acc.data() + shift * wide, plain_out.data());
        if (is_floating_point(dtype_)) {  // which of two NaNs comes out of a sum is not defined: compare that it is one
          for (std::int64_t i = 0; i < static_cast<std::int64_t>(kCount); ++i) {
            const double a = value_at(dtype_, out.data(), i), b = value_at(dtype_, plain_out.data(), i);
            ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i << ": " << a << " " << b;
            ASSERT_EQ(std::signbit(a) && !std::isnan(a), std::signbit(b) && !std::isnan(b));
          }
        } else {
          ASSERT_EQ(out, plain_out) << to_string(*reduce_op_from(number)) << " x " << scale.factor << " / " << scale.divisor;
        }
      }
    }
  }
}

std::string case_name(const testing::TestParamInfo<std::tuple<DataType, std::string_view>>& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" + std::string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Every, KernelsTest,
                         testing::Combine(testing::ValuesIn(all_dtypes()), testing::ValuesIn(available_levels().begin(), available_levels().end())),
                         case_name);

class SixteenBitTest : public testing::TestWithParam<std::string_view> {};

TEST_P(SixteenBitTest, EveryPatternWidensAndNarrowsExactly) {
  constexpr std::size_t kPatterns = 65536;
  std::vector<std::uint16_t> patterns(kPatterns), back(kPatterns);
  for (std::size_t i = 0; i < kPatterns; ++i) patterns[i] = static_cast<std::uint16_t>(i);
  for (DataType dtype : {DataType::float16, DataType::bfloat16}) {
    std::vector<float> wide(kPatterns);
    const Kernels& kernels = kernels_at(GetParam(), dtype);
    kernels.load(wide.data(), patterns.data(), kPatterns, {});
    kernels.store(back.data(), wide.data(), kPatterns, {});
    for (std::size_t i = 0; i < kPatterns; ++i) {
      const double expected = value_at(dtype, patterns.data(), static_cast<std::int64_t>(i));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(wide[i])) << i;
        ASSERT_TRUE(std::isnan(value_at(dtype, back.data(), static_cast<std::int64_t>(i)))) << i;
      } else {
        ASSERT_EQ(wide[i], expected) << i;
        ASSERT_EQ(back[i], patterns[i]) << i;
      }
    }
  }
}

TEST_P(SixteenBitTest, NarrowingRoundsToNearestEven) {
  std::mt19937 random(5);
  std::vector<float> values;
  for (int i = 0; i < 200'000; ++i) {
    float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (i % 2 == 0) value = std::ldexp(static_cast<float>(random() % 8192) + 0.5f, static_cast<int>(random() % 40) - 36);  // ties, subnormals
    if (!std::isnan(value)) values.push_back(value);
  }
  for (float special : {65504.0f, 65519.99f, 65520.0f, 65536.0f, 1e30f, -65520.0f, 5.96e-8f, 2.98e-8f, 2.99e-8f, 0.0f, -0.0f, INFINITY, -INFINITY}) {
    values.push_back(special);
  }
  std::vector<std::uint16_t> narrow(values.size());
  kernels_at(GetParam(), DataType::float16).store(narrow.data(), values.data(), values.size(), {});
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(narrow[i], std::bit_cast<std::uint16_t>(static_cast<_Float16>(values[i]))) << values[i];
  kernels_at(GetParam(), DataType::bfloat16).store(narrow.data(), values.data(), values.size(), {});
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(narrow[i], float_to_bfloat16(values[i])) << values[i];
}

INSTANTIATE_TEST_SUITE_P(Every, SixteenBitTest, testing::ValuesIn(available_levels().begin(), available_levels().end()),
                         [](const auto& info) { return std::string(info.param); });

TEST(Kernels, IntegersWrapAndSaturate) {
  std::int8_t acc = 100, value = 100;
  const Kernels& kernels = kernels_for(DataType::int8);
  kernels.combine(ReduceOp::sum, &acc, &value, 1, {});
  EXPECT_EQ(acc, static_cast<std::int8_t>(200));  // modulo 2^8
  kernels.load(&acc, &value, 1, {1000.0, 1});
  EXPECT_EQ(acc, 127);
  kernels.load(&acc, &value, 1, {-1000.0, 1});
  EXPECT_EQ(acc, -128);
  std::int64_t large = (std::int64_t{1} << 62) + 3, third = 0;
  kernels_for(DataType::int64).load(&third, &large, 1, {1.0, 3});
  EXPECT_EQ(third, large / 3);  // exact, though float64 could not hold it
}

TEST(Kernels, ANaNStays) {
  for (std::string_view level : available_levels()) {
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      std::vector<float> acc(20, 1.0f), values(20, 2.0f);
      acc[3] = NAN;
      values[7] = NAN;
      kernels_at(level, DataType::float32).combine(op, acc.data(), values.data(), acc.size(), {});
      for (std::size_t i = 0; i < acc.size(); ++i) EXPECT_EQ(std::isnan(acc[i]), i == 3 || i == 7) << level << " " << to_string(op);
    }
  }
}

}  // namespace
}  // namespace rueda::kernels
