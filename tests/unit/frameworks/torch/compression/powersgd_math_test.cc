// SPDX-License-Identifier: Apache-2.0
// Orthonormal rows, directions, and products of factors, against what LibTorch computes in float64.
#include "frameworks/torch/compression/powersgd_math.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/training/regression.h"

namespace rueda {
namespace {

// Of full rank, which make_parameter's are not.
at::Tensor values(at::IntArrayRef sizes, int seed, at::ScalarType type = at::kFloat) {
  return at::sin(make_parameter(sizes, seed).detach() * 1000.0).to(type);
}

void orthonormalise(at::Tensor& rows) {
  make_orthonormal(rows.mutable_data_ptr<float>(), rows.size(0), rows.size(1));
}

at::Tensor gram(const at::Tensor& rows) { return at::mm(rows.to(at::kDouble), rows.to(at::kDouble).t()); }

TEST(LowRankMath, MakesRowsOrthonormalInTheirSpan) {
  for (const std::int64_t length : {4, 7, 1000, 1003}) {
    at::Tensor rows = values({4, length}, 1);
    rows[2].copy_(rows[0] + 1e-4 * rows[1] + 1e-5 * rows[2]);  // far from orthogonal
    const at::Tensor before = rows.clone();
    orthonormalise(rows);
    EXPECT_LT(difference(gram(rows), at::eye(4, at::kDouble)), 1e-6) << length;
    EXPECT_LT(difference(at::mm(at::mm(before, rows.t()), rows), before), 1e-5) << length;
  }
}

TEST(LowRankMath, RowsWithNothingOfTheirOwnBecomeZero) {
  at::Tensor rows = values({5, 3}, 1);
  rows[1].zero_();
  rows[2].copy_(rows[0] * 4);  // the same to the bit
  orthonormalise(rows);
  at::Tensor expected = at::zeros({5, 5}, at::kDouble);
  for (const int own : {0, 3, 4}) expected[own][own] = 1.0;
  EXPECT_LT(difference(gram(rows), expected), 1e-6);
}

TEST(LowRankMath, RowsAfterOneThatIsNotFiniteAreNot) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor rows = values({4, 50}, 1);
    rows[1][33] = bad;
    orthonormalise(rows);
    for (int row = 0; row < 4; ++row)
      EXPECT_EQ(at::isfinite(rows[row]).all().item<bool>(), row == 0) << row << " " << bad;
  }
}

TEST(LowRankMath, DirectionsAreOfLengthOneAndRepeatable) {
  at::Tensor rows = values({4, 100}, 1) * 1e-20;
  rows[1].zero_();
  rows[2][5] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor first = rows[0].clone();
  at::Tensor again = rows.clone(), other = rows.clone();
  make_directions(rows.mutable_data_ptr<float>(), 4, 100, 7);
  make_directions(again.mutable_data_ptr<float>(), 4, 100, 7);
  make_directions(other.mutable_data_ptr<float>(), 4, 100, 8);
  EXPECT_TRUE(at::equal(rows, again));
  EXPECT_LT(difference(at::ones({4}, at::kDouble), gram(rows).diag()), 1e-6);
  EXPECT_NEAR(at::dot(rows[0], first / first.norm()).item<double>(), 1.0, 1e-6);
  EXPECT_LT(at::dot(rows[1], rows[2]).abs().item<double>(), 0.4);  // no multiples of one another
  EXPECT_GT(difference(rows[1], other[1]), 0.01);
  EXPECT_TRUE(at::equal(rows[0], other[0]));
}

template <class T>
void expect_reconstructed(std::int64_t rank, std::int64_t rows, std::int64_t columns) {
  const at::ScalarType type = c10::CppTypeToScalarType<T>::value;
  const at::Tensor first = values({rank, rows}, 1, type), own = values({rank, columns}, 2, type);
  const at::Tensor all = values({rank, columns}, 3, type), gradient = values({rows, columns}, 4, type);
  at::Tensor result = gradient.clone(), residual = at::full_like(gradient, 9.0);
  const Factors<T> factors{
      first.const_data_ptr<T>(), own.const_data_ptr<T>(), all.const_data_ptr<T>(), rank, rows, columns};
  T* const to = result.mutable_data_ptr<T>();
  reconstruct(to, residual.mutable_data_ptr<T>(), factors, 0, rows - 1);
  const at::Tensor exact = at::mm(first.t().to(at::kDouble), all.to(at::kDouble));
  const at::Tensor rest = gradient - at::mm(first.t().to(at::kDouble), own.to(at::kDouble));
  const double rounding = type == at::kFloat ? 1e-5 : 1e-13;
  EXPECT_LT(difference(result.slice(0, 0, rows - 1), exact.slice(0, 0, rows - 1)), rounding);
  EXPECT_LT(difference(residual.slice(0, 0, rows - 1), rest.slice(0, 0, rows - 1)), rounding);
  EXPECT_TRUE(at::equal(result[rows - 1], gradient[rows - 1]));  // not asked for
  EXPECT_TRUE(at::equal(residual[rows - 1], at::full({columns}, 9.0, type)));
  reconstruct(to, static_cast<T*>(nullptr), factors, rows - 1, rows);
  EXPECT_LT(difference(result[rows - 1], exact[rows - 1]), rounding);
}

TEST(LowRankMath, ReconstructsRows) {
  for (const std::int64_t columns : {1, 7, 1024, 2500}) {
    expect_reconstructed<float>(3, 5, columns);
    expect_reconstructed<double>(1, 2, columns);
  }
}

}  // namespace
}  // namespace rueda
