// SPDX-License-Identifier: Apache-2.0
// What ranks put into tensors of the conformance suites, and what must come out.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "tests/support/conformance/values.h"

namespace rueda {

// What rank `rank` puts into element i: small whole numbers, so that every dtype holds them and most results
// exactly.
inline double own_value(DataType dtype, Rank rank, std::int64_t i) {
  const auto mixed = static_cast<std::int64_t>((i * 31 + rank * 17 + i / 7) % 5);
  if (dtype == DataType::boolean) return mixed % 2 == 0 ? 1.0 : 0.0;
  return static_cast<double>(dtype == DataType::uint8 ? mixed : mixed - 2);
}

inline double reference(DataType dtype, ReduceOp op, Rank ranks, std::int64_t i, double prescale = 1,
                        double postscale = 1) {
  double result = own_value(dtype, 0, i) * prescale;
  const bool logical = dtype == DataType::boolean;
  for (Rank rank = 1; rank < ranks; ++rank) {
    const double value = own_value(dtype, rank, i) * prescale;
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average: result = logical ? std::max(result, value) : result + value; break;
      case ReduceOp::min: result = std::min(result, value); break;
      case ReduceOp::max: result = std::max(result, value); break;
      case ReduceOp::product: result *= value; break;
      case ReduceOp::adasum: break;  // check_adasum
    }
  }
  result *= postscale;
  if (op == ReduceOp::average) result /= ranks;
  return is_integer(dtype) ? std::trunc(result) : result;
}

inline void expect_near(const std::string& what, DataType dtype, std::int64_t i, double expected,
                        double got) {
  if (std::abs(got - expected) <= relative_tolerance(dtype) * std::abs(expected)) return;
  throw std::runtime_error(fmt::format("{}: element {}: expected {}, got {}", what, i, expected, got));
}

}  // namespace rueda
