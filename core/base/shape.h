// SPDX-License-Identifier: Apache-2.0
// The extent of a tensor in each dimension. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rueda {

using Shape = std::vector<std::int64_t>;    // elements in each dimension, the slowest first; empty: a scalar
using Strides = std::vector<std::int64_t>;  // in elements

// Number of elements (1 for a scalar's empty shape); nothing if a dimension is negative or the product
// overflows.
std::optional<std::int64_t> checked_element_count(std::span<const std::int64_t> shape);

// The same for a shape that has been checked.
std::int64_t element_count(std::span<const std::int64_t> shape);

// Elements of one row, that is of all dimensions but the first; 1 for a shape of at most one dimension.
std::int64_t row_element_count(std::span<const std::int64_t> shape);

// Of the elements of `shape` laid out row by row, without gaps.
Strides contiguous_strides(std::span<const std::int64_t> shape);

std::string to_string(std::span<const std::int64_t> shape);  // "[2, 3]"

}  // namespace rueda
