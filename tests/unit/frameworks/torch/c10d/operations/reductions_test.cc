// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/reductions.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/words_of.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using Op = c10d::ReduceOp;

// `values` as torch sees them.
template <class T>
at::Tensor tensor_of(std::vector<T> values, at::ScalarType type) {
  return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::TensorOptions(type))
      .clone();
}

TEST(C10dReductions, EachHasItsPartnerInCore) {
  EXPECT_EQ(reduction_of(Op::SUM).op, rueda::ReduceOp::sum);
  EXPECT_EQ(reduction_of(Op::AVG).op, rueda::ReduceOp::average);
  EXPECT_EQ(reduction_of(Op::PRODUCT).op, rueda::ReduceOp::product);
  EXPECT_EQ(reduction_of(Op::MIN).op, rueda::ReduceOp::min);
  EXPECT_EQ(reduction_of(Op::MAX).op, rueda::ReduceOp::max);
  const Reduction scaled = reduction_of(c10d::makeNCCLPreMulSum(2.5));
  EXPECT_EQ(scaled.op, rueda::ReduceOp::sum);
  EXPECT_DOUBLE_EQ(scaled.prescale_factor, 2.5);
}

TEST(C10dReductions, ThoseThatNobodyHasAreRefused) {
  EXPECT_THAT(words_of<c10::ValueError>([] { reduction_of(Op::UNUSED); }), HasSubstr("none of SUM, AVG"));
  EXPECT_THAT(words_of<c10::ValueError>([] { check_bitwise(at::zeros({1}, at::kFloat)); }),
              HasSubstr("combine integers and bool"));
  EXPECT_THAT(words_of<c10::ValueError>([] { reducible(at::zeros({1}, at::kComplexFloat), Op::MAX); }),
              HasSubstr("complex numbers have the reductions"));
  EXPECT_THAT(words_of<c10::ValueError>([] { reducible(at::zeros({1}, at::kUInt64), Op::AVG); }),
              HasSubstr("convert it to int64"));
}

TEST(C10dReductions, ComplexNumbersArePairs) {
  const at::Tensor numbers = at::complex(at::ones({2}), at::full({2}, 3.0));
  const at::Tensor pairs = reducible(numbers, Op::SUM);
  EXPECT_EQ(pairs.scalar_type(), at::kFloat);
  EXPECT_TRUE(is_reducible_in_place(numbers, Op::SUM));
  restore(numbers, pairs * 2, Op::SUM);
  EXPECT_TRUE(at::equal(numbers, at::complex(at::full({2}, 2.0), at::full({2}, 6.0))));
}

TEST(C10dReductions, SumsOfUnsignedNumbersAreThoseOfSignedOnes) {
  for (const at::ScalarType type : {at::kUInt16, at::kUInt32, at::kUInt64}) {
    const at::Tensor values = at::zeros({2}, type);
    EXPECT_TRUE(is_reducible_in_place(values, Op::SUM));
    EXPECT_TRUE(reducible(values, Op::SUM).is_alias_of(values));
    EXPECT_FALSE(is_reducible_in_place(values, Op::MAX));
    EXPECT_FALSE(reducible(values, Op::MAX).is_alias_of(values));
  }
}

// Numbers beyond the middle are negative as signed ones of as many bits.
TEST(C10dReductions, TheOrderOfUnsignedNumbersStays) {
  const std::vector<std::uint64_t> numbers{0, 1, std::uint64_t{1} << 63,
                                           std::numeric_limits<std::uint64_t>::max()};
  const at::Tensor values = tensor_of(numbers, at::kUInt64);
  const at::Tensor ordered = reducible(values, Op::MAX);
  for (std::int64_t i = 0; i + 1 < ordered.numel(); ++i)
    EXPECT_LT(ordered[i].item<std::int64_t>(), ordered[i + 1].item<std::int64_t>());
  const at::Tensor back = at::zeros({4}, at::kUInt64);
  restore(back, ordered, Op::MAX);
  EXPECT_TRUE(at::equal(back.view(at::kLong), values.view(at::kLong)));

  const at::Tensor halves = tensor_of(std::vector<std::uint16_t>{1, 0xffff}, at::kUInt16);
  const at::Tensor wider = reducible(halves, Op::MIN);
  EXPECT_EQ(wider[1].item<std::int32_t>(), 0xffff);
  const at::Tensor halves_back = at::zeros({2}, at::kUInt16);
  restore(halves_back, wider, Op::MIN);
  EXPECT_TRUE(at::equal(halves_back.view(at::kShort), halves.view(at::kShort)));
}

TEST(C10dReductions, BitsOfAllRanksAreCombined) {
  const at::Tensor values =
      tensor_of(std::vector<std::int32_t>{0b1100, 1, 0b1010, 2, 0b1000, 4}, at::kInt);  // 3 ranks
  const at::Tensor result = at::zeros({2}, at::kInt);
  bitwise_into(result, values, 3, Op::BAND);
  EXPECT_EQ(result[0].item<std::int32_t>(), 0b1000);
  bitwise_into(result, values, 3, Op::BOR);
  EXPECT_EQ(result[0].item<std::int32_t>(), 0b1110);
  EXPECT_EQ(result[1].item<std::int32_t>(), 7);
  bitwise_into(result, values, 3, Op::BXOR);
  EXPECT_EQ(result[0].item<std::int32_t>(), 0b1110);
  EXPECT_TRUE(is_bitwise(Op::BXOR) && !is_bitwise(Op::SUM));
}

}  // namespace
}  // namespace rueda
