// SPDX-License-Identifier: Apache-2.0
// Every level against plain scalar arithmetic, and against each other bit by bit.
#include "ops/kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/host_buffer.h"
#include "core/base/operation_traits.h"
#include "tests/support/conformance/values.h"

namespace rueda::kernels {
namespace {

template <class Predicate>
std::vector<DataType> dtypes_that(Predicate predicate) {
  std::vector<DataType> dtypes;
  for (std::uint8_t i = 0; i < kDataTypeCount; ++i) {
    if (predicate(*data_type_from(i))) dtypes.push_back(*data_type_from(i));
  }
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

class FullWidthKernelsTest : public KernelsTest {};
class IntegerKernelsTest : public KernelsTest {};
class FloatKernelsTest : public KernelsTest {};

// A few values that fit every dtype and whose sums and products stay exact.
double sample(DataType dtype, std::int64_t i, int salt) {
  const auto mixed = static_cast<std::int64_t>((i * 37 + salt * 11 + i / 13) % 7);
  return dtype == DataType::boolean ? static_cast<double>(mixed % 2)
         : dtype == DataType::uint8 ? static_cast<double>(mixed)
                                    : static_cast<double>(mixed - 3);
}

TEST_P(KernelsTest, CombinesAsPlainArithmeticDoes) {
  for (std::int64_t count : {0, 1, 3, 7, 8, 9, 31, 64, 100, 513, 1500}) {
    TestTensor acc(acc_, {count}), values(dtype_, {count});
    for (std::uint8_t number = 0; number < kReduceOpCount; ++number) {
      const ReduceOp op = *reduce_op_from(number);
      if (op == ReduceOp::adasum) continue;  // not by elements
      for (std::int64_t i = 0; i < count; ++i)
        acc.set(i, sample(dtype_, i, 1)), values.set(i, sample(dtype_, i, 2));
      kernels_.combine(op, acc.view().data, values.view().data, static_cast<std::size_t>(count), {});
      for (std::int64_t i = 0; i < count; ++i) {
        const double a = sample(dtype_, i, 1), b = sample(dtype_, i, 2);
        const bool sums = op == ReduceOp::sum || op == ReduceOp::average;
        const double expected = sums                  ? (dtype_ == DataType::boolean ? std::max(a, b) : a + b)
                                : op == ReduceOp::min ? std::min(a, b)
                                : op == ReduceOp::max ? std::max(a, b)
                                                      : a * b;
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
      ASSERT_NEAR(stored.get(i), is_integer(dtype_) ? std::trunc(exact) : exact,
                  std::abs(exact) * relative_tolerance(dtype_));
    }
  }
}

// Bits of every kind of value; of floats every third is made a NaN or an infinity, so that these meet each
// other.
std::vector<std::byte> random_values(DataType dtype, std::size_t count, std::uint32_t seed) {
  std::vector<std::byte> bytes = random_bytes(count * size_of(dtype), seed);
  auto set_exponents = [&]<class Word>(Word infinity) {
    for (std::size_t i = 0; i < count; i += 3) {
      Word word;
      std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
      word = i % 5 == 0 ? infinity : static_cast<Word>(word | infinity);
      std::memcpy(bytes.data() + i * sizeof(word), &word, sizeof(word));
    }
  };
  if (dtype == DataType::float16) set_exponents(std::uint16_t{0x7c00});
  if (dtype == DataType::bfloat16) set_exponents(std::uint16_t{0x7f80});
  if (dtype == DataType::float32) set_exponents(std::uint32_t{0x7f800000});
  if (dtype == DataType::float64) set_exponents(std::uint64_t{0x7ff0000000000000});
  return bytes;
}

TEST_P(KernelsTest, EveryLevelGivesTheSameBitsAtEveryAlignment) {
  constexpr std::size_t kCount = 3001, kShifts[] = {0, 1, 5};
  const std::size_t size = size_of(dtype_), wide = size_of(acc_);
  const Kernels& base = kernels_at("base", dtype_);
  for (std::size_t shift : kShifts) {
    const std::vector<std::byte> values = random_values(dtype_, kCount + shift, 1);
    const std::vector<std::byte> start = random_values(acc_, kCount + shift, 2);
    for (std::uint8_t number = 0; number < kReduceOpCount; ++number) {
      const ReduceOp op = *reduce_op_from(number);
      if (op == ReduceOp::adasum) continue;  // not by elements
      for (const Scale& scale : {Scale{}, Scale{0.3, 1}, Scale{-1e30, 1}, Scale{1.0, 7}}) {
        if (dtype_ == DataType::boolean && !scale.identity()) continue;
        auto run = [&](const Kernels& kernels) {
          std::vector<std::byte> loaded(kCount * wide), sums = start, stored(kCount * size);
          kernels.load(loaded.data(), values.data() + shift * size, kCount, scale);
          kernels.combine(op, sums.data() + shift * wide, values.data() + shift * size, kCount, scale);
          kernels.store(stored.data(), start.data() + shift * wide, kCount, scale);
          return std::tuple(loaded, sums, stored);
        };
        ASSERT_EQ(run(kernels_), run(base))
            << to_string(op) << " x " << scale.factor << " / " << scale.divisor;
      }
    }
  }
}

// The sums of copies one after the other, as ReductionTree combines them: ((0+1)+(2+3)).
TEST_P(KernelsTest, SumsIntoAllTargetsAsInSeveralPasses) {
  if (kernels_.sum_of_two == nullptr) {
    EXPECT_EQ(dtype_, DataType::float16);
    return;
  }
  const std::size_t size = size_of(dtype_), wide = size_of(acc_);
  const Kernels& sums = kernels_at(level_, acc_);
  for (const std::size_t copies : {2, 4}) {
    for (const std::size_t count : {0, 1, 15, 16, 64, 129, 3001}) {
      for (const Scale& scale : {Scale{}, Scale{0.3, 1}, Scale{1.0, 4}}) {
        if (dtype_ == DataType::boolean && !scale.identity()) continue;
        std::vector<std::vector<std::byte>> values, acc;
        for (std::size_t k = 0; k < copies; ++k) {
          values.push_back(random_values(dtype_, count + 5, static_cast<std::uint32_t>(k)));
          acc.emplace_back(count * wide);
          kernels_.load(acc[k].data(), values[k].data() + k * size, count, {});
        }
        for (std::size_t k = 0; k < copies; k += 2)
          sums.combine(ReduceOp::sum, acc[k].data(), acc[k + 1].data(), count, {});
        if (copies == 4) sums.combine(ReduceOp::sum, acc[0].data(), acc[2].data(), count, {});
        std::vector<std::byte> expected(count * size);
        kernels_.store(expected.data(), acc[0].data(), count, scale);
        std::vector<const void*> from;
        std::vector<void*> to;
        std::vector<std::byte> apart(count * size + size);
        for (std::size_t k = 0; k < copies; ++k) {
          from.push_back(values[k].data() + k * size);
          to.push_back(k == 1 ? apart.data() + size : values[k].data() + k * size);  // in place, but for one
        }
        (copies == 2 ? kernels_.sum_of_two : kernels_.sum_of_four)(from.data(), to.data(), count, scale, 0);
        for (std::size_t k = 0; k < copies; ++k)
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), static_cast<const std::byte*>(to[k])))
              << copies << " " << count << " " << k;
        ASSERT_EQ(values[1], random_values(dtype_, count + 5, 1));
        for (std::size_t k : {std::size_t{0}, copies - 1}) {
          if (k == 1) continue;
          const std::vector<std::byte> before =
              random_values(dtype_, count + 5, static_cast<std::uint32_t>(k));
          const std::size_t end = (k + count) * size;
          ASSERT_TRUE(std::equal(before.begin() + end, before.end(), values[k].begin() + end))
              << "past the end";
        }
      }
    }
  }
}

TEST_P(KernelsTest, StreamsSumsOfTheSameBits) {
  if (kernels_.sum_of_two == nullptr) return;
  for (const std::size_t copies : {2, 4}) {
    for (const std::size_t count : {0, 15, 64, 129, 3001}) {
      auto sums = [&](unsigned streamed) {
        std::vector<HostBuffer> values;
        std::vector<const void*> from;
        std::vector<void*> to;
        for (std::size_t k = 0; k < copies; ++k) {
          const std::vector<std::byte> random =
              random_values(dtype_, count + 64, static_cast<std::uint32_t>(k));  // the last ones stay
          std::ranges::copy(random, values.emplace_back(random.size()).data());
          from.push_back(values[k].data());
          to.push_back(values[k].data());
        }
        (copies == 2 ? kernels_.sum_of_two : kernels_.sum_of_four)(from.data(), to.data(), count, {},
                                                                   streamed);
        std::vector<std::byte> all;
        for (const HostBuffer& each : values) all.insert(all.end(), each.data(), each.data() + each.size());
        return all;
      };
      const std::vector<std::byte> expected = sums(0);
      for (const unsigned streamed : {1U, 2U, copies == 2 ? 3U : 13U})
        ASSERT_EQ(sums(streamed), expected) << copies << " " << count << " " << streamed;
    }
  }
}

TEST_P(FullWidthKernelsTest, ScalesInPlace) {
  constexpr std::size_t kCount = 1003;
  for (const Scale& scale : {Scale{0.3, 1}, Scale{1.0, 7}}) {
    std::vector<std::byte> values = random_values(dtype_, kCount, 3), expected(values.size());
    kernels_.load(expected.data(), values.data(), kCount, scale);
    kernels_.store(values.data(), values.data(), kCount, scale);
    ASSERT_EQ(values, expected);
  }
}

TEST_P(IntegerKernelsTest, DivideExactlyAndSaturate) {
  const auto bits = static_cast<int>(8 * size_of(dtype_));
  const bool is_signed = dtype_ != DataType::uint8;
  const std::int64_t most = is_signed ? std::numeric_limits<std::int64_t>::max() >> (64 - bits) : 255;
  const std::int64_t least = is_signed ? -most - 1 : 0;
  std::vector<std::byte> values = random_bytes(5000 * size_of(dtype_), 4), scaled(values.size());
  const std::int64_t extremes[] = {least, least + 1, 0, 1, most - 1, most};
  for (std::int64_t i = 0; i < 6; ++i)
    std::memcpy(values.data() + i * size_of(dtype_), &extremes[i], size_of(dtype_));
  auto at = [&](const std::vector<std::byte>& array, std::int64_t i) {
    std::int64_t value = 0;
    std::memcpy(&value, array.data() + i * size_of(dtype_), size_of(dtype_));
    return is_signed ? value << (64 - bits) >> (64 - bits) : value;
  };
  for (std::int64_t divisor : {2, 3, 7, 10, 49, 127, 1000, 65537, 2147483647}) {
    kernels_.load(scaled.data(), values.data(), 5000, {1.0, divisor});
    for (std::int64_t i = 0; i < 5000; ++i)
      ASSERT_EQ(at(scaled, i), at(values, i) / divisor) << at(values, i) << " / " << divisor;
  }
  for (double factor : {1e30, -1e30, 0.3, -0.7, 1.9}) {
    kernels_.load(scaled.data(), values.data(), 5000, {factor, 2});
    for (std::int64_t i = 0; i < 5000; ++i) {
      const double exact = std::trunc(static_cast<double>(at(values, i)) * factor / 2);
      const std::int64_t expected = exact >= static_cast<double>(most)    ? most
                                    : exact <= static_cast<double>(least) ? least
                                                                          : static_cast<std::int64_t>(exact);
      ASSERT_EQ(at(scaled, i), expected) << at(values, i) << " * " << factor << " / 2";
    }
  }
}

TEST_P(FloatKernelsTest, ANaNStays) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    TestTensor acc(acc_, {20}), values(dtype_, {20});
    for (std::int64_t i = 0; i < 20; ++i) acc.set(i, 1), values.set(i, 2);
    acc.set(3, NAN);
    values.set(7, NAN);
    kernels_.combine(op, acc.view().data, values.view().data, 20, {});
    for (std::int64_t i = 0; i < 20; ++i)
      EXPECT_EQ(std::isnan(acc.get(i)), i == 3 || i == 7) << to_string(op) << " " << i;
  }
}

std::string case_name(const testing::TestParamInfo<std::tuple<DataType, std::string_view>>& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" + std::string(std::get<1>(info.param));
}

template <class Predicate>
auto at_every_level(Predicate predicate) {
  return testing::Combine(testing::ValuesIn(dtypes_that(predicate)),
                          testing::ValuesIn(available_levels().begin(), available_levels().end()));
}

// Its own accumulator, and can be scaled.
bool is_full_width(DataType dtype) { return accumulator_of(dtype) == dtype && dtype != DataType::boolean; }

INSTANTIATE_TEST_SUITE_P(Every, KernelsTest, at_every_level([](DataType) { return true; }), case_name);
INSTANTIATE_TEST_SUITE_P(Every, FullWidthKernelsTest, at_every_level(is_full_width), case_name);
INSTANTIATE_TEST_SUITE_P(Every, IntegerKernelsTest, at_every_level(is_integer), case_name);
INSTANTIATE_TEST_SUITE_P(Every, FloatKernelsTest, at_every_level(is_floating_point), case_name);

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
    if (i % 2 == 0)
      value = std::ldexp(static_cast<float>(random() % 8192) + 0.5f,
                         static_cast<int>(random() % 40) - 36);  // ties, subnormals
    if (!std::isnan(value)) values.push_back(value);
  }
  for (float special : {65504.0f, 65519.99f, 65520.0f, 65536.0f, 1e30f, -65520.0f, 5.96e-8f, 2.98e-8f,
                        2.99e-8f, 0.0f, -0.0f, INFINITY, -INFINITY}) {
    values.push_back(special);
  }
  std::vector<std::uint16_t> narrow(values.size());
  kernels_at(GetParam(), DataType::float16).store(narrow.data(), values.data(), values.size(), {});
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(narrow[i], std::bit_cast<std::uint16_t>(static_cast<_Float16>(values[i]))) << values[i];
  kernels_at(GetParam(), DataType::bfloat16).store(narrow.data(), values.data(), values.size(), {});
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(narrow[i], float_to_bfloat16(values[i])) << values[i];
}

INSTANTIATE_TEST_SUITE_P(Every, SixteenBitTest,
                         testing::ValuesIn(available_levels().begin(), available_levels().end()),
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

}  // namespace
}  // namespace rueda::kernels
