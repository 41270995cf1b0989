// SPDX-License-Identifier: Apache-2.0
#include "ops/tree_order.h"

#include <array>
#include <bit>

namespace rueda {
namespace {

// Purpose: what is the same all over the tree.
struct Tree {
  const kernels::Kernels& values;
  const kernels::Kernels& sums;
  ReduceOp op;
  kernels::Scale prescale;
  std::size_t elements;

  void combine(std::byte* sum, std::span<const std::byte* const> copies) const {
    if (copies.size() == 1) return values.load(sum, copies.front(), elements, prescale);
    const std::size_t left = left_of_root(copies.size());
    combine(sum, copies.first(left));
    if (left + 1 == copies.size()) return values.combine(op, sum, copies.back(), elements, prescale);
    combine_right(sum, copies.subspan(left));
  }

  void combine_right(std::byte* sum, std::span<const std::byte* const> copies) const {
    alignas(64) std::array<std::byte, kTreeBytes> right;
    combine(right.data(), copies);
    sums.combine(op, sum, right.data(), elements, {});
  }
};

}  // namespace

std::size_t left_of_root(std::size_t members) { return std::bit_floor(members - 1); }

void combine_in_tree(ReduceOp op, DataType dtype, kernels::Scale prescale, std::byte* sum,
                     std::span<const std::byte* const> copies, std::size_t elements) {
  const Tree tree{kernels::kernels_for(dtype), kernels::kernels_for(accumulator_of(dtype)), op, prescale,
                  elements};
  tree.combine(sum, copies);
}

}  // namespace rueda
