// SPDX-License-Identifier: Apache-2.0
// Averages of integers at every level, against integers that are wide enough.
#include "ops/kernels/average.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/base/operation_traits.h"
#include "rueda/rueda.h"

namespace rueda::kernels {
namespace {

constexpr std::size_t kCount = 1001;
constexpr std::size_t kCopies = 16;

// Never at the start of a line.
template <class T>
T* unaligned(std::vector<T>& values) {
  return values.data() + 1;
}

template <class T>
using Copies = std::vector<std::vector<T>>;

// Whatever T holds; the first elements of all copies are its largest and its smallest value.
template <class T>
Copies<T> random_copies() {
  std::mt19937_64 random(6);
  Copies<T> copies(kCopies, std::vector<T>(kCount));
  for (std::vector<T>& copy : copies) {
    for (T& value : copy) value = static_cast<T>(random());
    copy[0] = std::numeric_limits<T>::max();
    copy[1] = std::numeric_limits<T>::min();
  }
  return copies;
}

template <class T>
T expected_average(const Copies<T>& copies, std::size_t i, Scale scale) {
  using Limits = std::numeric_limits<T>;
  Int128 sum = 0;
  for (const std::vector<T>& copy : copies) sum += copy[i];
  Int128 exact = sum / scale.divisor;
  if (scale.factor != 1.0)
    exact = static_cast<Int128>(static_cast<double>(sum) * scale.factor / static_cast<double>(scale.divisor));
  return static_cast<T>(std::clamp<Int128>(exact, Limits::min(), Limits::max()));
}

class AverageTest : public testing::TestWithParam<std::string_view> {
 protected:
  template <class T>
  Accumulation how() const {
    return accumulation_at(GetParam(), data_type_of<T>, ReduceOp::average);
  }

  // The second half is added up by itself, as another rank does, and then to the first.
  template <class T>
  void expect_exact() const {
    const Copies<T> copies = random_copies<T>();
    const Accumulation how = this->how<T>();
    ASSERT_EQ(how.sum_size, sizeof(AverageSum<T>));
    std::vector<AverageSum<T>> sums(kCount + 1), other(kCount + 1), received(kCount + 1);
    for (std::size_t k = 0; k < kCopies; ++k) {
      AverageSum<T>* to = unaligned(k < kCopies / 2 ? sums : other);
      if (k % (kCopies / 2) == 0) {
        how.values->load(to, copies[k].data(), kCount, {});
      } else {
        how.values->combine(ReduceOp::average, to, copies[k].data(), kCount, {});
      }
    }
    how.sums->load(unaligned(received), unaligned(other), kCount, {});
    how.sums->combine(ReduceOp::average, unaligned(sums), unaligned(received), kCount, {});
    std::vector<T> averages(kCount + 2, T{77});
    for (const Scale& scale :
         {Scale{1.0, 16}, Scale{1.0, 49}, Scale{1.0, 3}, Scale{1.0, 1}, Scale{2.5, 16}}) {
      how.values->store(unaligned(averages), unaligned(sums), kCount, scale);
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(unaligned(averages)[i], expected_average(copies, i, scale))
            << to_string(data_type_of<T>) << " " << i << " * " << scale.factor << " / " << scale.divisor;
      ASSERT_TRUE(averages.front() == 77 && averages.back() == 77) << "wrote beside the values";
    }
  }

  // Values that are scaled before have their type: factors mean the same in a sum and in an average.
  template <class T>
  void expect_saturated() const {
    const T most = std::numeric_limits<T>::max();
    const std::vector<T> values(kCount, 101);
    std::vector<AverageSum<T>> sums(kCount);
    std::vector<T> averages(kCount);
    how<T>().values->load(sums.data(), values.data(), kCount, {0.5, 1});
    how<T>().values->combine(ReduceOp::average, sums.data(), values.data(), kCount, {1e30, 1});
    how<T>().values->store(averages.data(), sums.data(), kCount, {1.0, 2});
    const std::vector<T> expected(kCount, static_cast<T>((Int128{most} + 50) / 2));
    EXPECT_EQ(averages, expected);
    how<T>().values->store(averages.data(), sums.data(), kCount, {-1e30, 2});
    EXPECT_EQ(averages, std::vector<T>(kCount, std::numeric_limits<T>::min()));
  }
};

TEST_P(AverageTest, IsExactWhateverTheSumIs) {
  expect_exact<std::uint8_t>();
  expect_exact<std::int8_t>();
  expect_exact<std::int16_t>();
  expect_exact<std::int32_t>();
  expect_exact<std::int64_t>();
}

TEST_P(AverageTest, SaturatesWhatIsScaled) {
  expect_saturated<std::uint8_t>();
  expect_saturated<std::int8_t>();
  expect_saturated<std::int16_t>();
  expect_saturated<std::int32_t>();
  expect_saturated<std::int64_t>();
}

// Quotients of all sums of small values: 49 * (1.0 / 49) is less than 1.
TEST_P(AverageTest, DividesByEveryNumberOfRanks) {
  std::vector<std::int32_t> sums;
  for (std::int32_t sum = -20'000; sum <= 20'000; ++sum) sums.push_back(sum);
  std::vector<std::int16_t> averages(sums.size());
  for (std::int64_t ranks = 1; ranks <= 300; ++ranks) {
    how<std::int16_t>().values->store(averages.data(), sums.data(), sums.size(), {1.0, ranks});
    for (std::size_t i = 0; i < sums.size(); ++i)
      ASSERT_EQ(averages[i], sums[i] / ranks) << sums[i] << " / " << ranks;
  }
}

// All else has the same accumulator whatever the operator is.
TEST_P(AverageTest, WidensIntegersAlone) {
  for (std::uint8_t dtype = 0; dtype < kDataTypeCount; ++dtype) {
    for (std::uint8_t op = 0; op < kReduceOpCount; ++op) {
      const DataType type = *data_type_from(dtype);
      if (is_integer(type) && *reduce_op_from(op) == ReduceOp::average) continue;
      const Accumulation how = accumulation_at(GetParam(), type, *reduce_op_from(op));
      EXPECT_EQ(how.values, &kernels_at(GetParam(), type));
      EXPECT_EQ(how.sums, &kernels_at(GetParam(), accumulator_of(type)));
      EXPECT_EQ(how.sum_size, size_of(accumulator_of(type)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, AverageTest,
                         testing::ValuesIn(available_levels().begin(), available_levels().end()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rueda::kernels
