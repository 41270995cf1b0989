// SPDX-License-Identifier: Apache-2.0
// Sums of squares at every level: against plain arithmetic, and against each other bit by bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "core/base/operation_traits.h"
#include "ops/kernels/kernels.h"
#include "tests/support/conformance/values.h"

namespace rueda::kernels {
namespace {

constexpr std::int64_t kCounts[] = {0,  1,  2,  3,   7,   8,   15,  16,  17,  31,   32,   33,
                                    63, 64, 65, 100, 511, 512, 513, 527, 529, 1024, 1500, 2003};

class SquareSumTest : public testing::TestWithParam<std::tuple<DataType, std::string_view>> {
 protected:
  static double sum_of(const Kernels& kernels, const TensorView& values, std::int64_t from = 0) {
    const auto* data =
        static_cast<const std::byte*>(values.data) + static_cast<std::size_t>(from) * size_of(values.dtype);
    return kernels.square_sum(data, static_cast<std::size_t>(values.elements() - from));
  }
  double sum_of(const TestTensor& values) const { return sum_of(kernels_, values.view()); }

  DataType dtype_ = std::get<0>(GetParam());
  const Kernels& kernels_ = kernels_at(std::get<1>(GetParam()), dtype_);
  const Kernels& base_ = kernels_at("base", dtype_);
};

TEST_P(SquareSumTest, IsThatOfPlainArithmetic) {
  for (const std::int64_t count : kCounts) {
    TestTensor values(dtype_, {count});
    double exact = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      values.set(i, static_cast<double>(i * 37 % 23 - 11) / 4);
      exact += values.get(i) * values.get(i);
    }
    EXPECT_EQ(sum_of(values), exact) << count;  // of small multiples of 1/16
    EXPECT_TRUE(values.gaps_untouched());
  }
}

// Squares have room, and nothing is lost beside large ones.
TEST_P(SquareSumTest, IsComputedInFloat64) {
  TestTensor values(dtype_, {1000});
  const double large = dtype_ == DataType::float16 ? 60000 : dtype_ == DataType::float64 ? 0x1p400 : 0x1p120;
  for (std::int64_t i = 0; i < 1000; ++i) values.set(i, 0.125);
  values.set(500, dtype_ == DataType::float16 ? 256 : 4096);
  EXPECT_EQ(sum_of(values), 999.0 / 64 + values.get(500) * values.get(500));
  values.set(0, large);
  const double square = values.get(0) * values.get(0);
  EXPECT_NEAR(sum_of(values) / square, 1.0, 1e-4);
}

TEST_P(SquareSumTest, TellsEveryValueThatIsNotFinite) {
  for (const std::int64_t count : {1, 16, 37, 530}) {
    for (std::int64_t bad = 0; bad < count; ++bad) {
      TestTensor values(dtype_, {count});
      for (std::int64_t i = 0; i < count; ++i) values.set(i, 1.0);
      const double infinity = std::numeric_limits<double>::infinity();
      values.set(bad, -infinity);
      ASSERT_EQ(sum_of(values), infinity) << bad;
      if (dtype_ == DataType::bfloat16) {  // which the reference does not round
        store_as(values.view().data, bad, std::uint16_t{0x7fc1});
      } else {
        values.set(bad, std::numeric_limits<double>::quiet_NaN());
      }
      ASSERT_TRUE(std::isnan(sum_of(values))) << bad;
    }
  }
}

// Values of every kind, also where no vector begins.
TEST_P(SquareSumTest, HasTheSameBitsAtEveryLevel) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    for (const std::int64_t count : kCounts) {
      TestTensor values(dtype_, {count + 5});
      const std::size_t size = size_of(dtype_);
      for (std::int64_t i = 0; i < count + 5; ++i) {
        const std::uint64_t bits = random();  // often NaN or infinite in few bits
        if (seed % 2 == 0) {
          values.set(i,
                     std::ldexp(static_cast<double>(bits % 2001) - 1000, static_cast<int>(bits % 9)) / 3e3);
        } else {
          std::memcpy(static_cast<std::byte*>(values.view().data) + static_cast<std::size_t>(i) * size, &bits,
                      size);
        }
      }
      for (const std::int64_t from : {0, 1, 5}) {
        ASSERT_EQ(std::bit_cast<std::uint64_t>(sum_of(kernels_, values.view(), from)),
                  std::bit_cast<std::uint64_t>(sum_of(base_, values.view(), from)))
            << seed << " " << count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, SquareSumTest,
                         testing::Combine(testing::Values(DataType::float16, DataType::bfloat16,
                                                          DataType::float32, DataType::float64),
                                          testing::ValuesIn(available_levels().begin(),
                                                            available_levels().end())),
                         [](const auto& info) {
                           return std::string(to_string(std::get<0>(info.param))) + "_" +
                                  std::string(std::get<1>(info.param));
                         });

TEST(SquareSum, IsOfFloatingPointOnly) {
  for (std::uint8_t i = 0; i < kDataTypeCount; ++i) {
    const DataType dtype = *data_type_from(i);
    EXPECT_EQ(kernels_for(dtype).square_sum != nullptr, can_measure(Operation::allreduce, dtype));
  }
}

}  // namespace
}  // namespace rueda::kernels
