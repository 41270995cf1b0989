// SPDX-License-Identifier: Apache-2.0
// The order in which values of several ranks are combined where it is fixed: a balanced tree.
//
// On the left of the root are as many members as the largest power of two below their number: 2 of 4, 4 of 5
// to
// 8. Each side is such a tree again: ((0+1)+(2+3))+(4+5). So 2^i members that begin at a multiple of 2^i are
// a subtree, whose sum one of them may bring: 4 ranks, 2 that have combined two values each, and one that has
// combined 4 come to the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "ops/kernels/kernels.h"

namespace rueda {

// How many of `members`, at least 2, are on the left of the root.
std::size_t left_of_root(std::size_t members);

inline constexpr std::size_t kTreeBytes = 8192;

// sum = values of all `copies`, each times `prescale`, combined in their order: `elements` accumulators of
// kTreeBytes at most. Uses as many times kTreeBytes of stack as the tree is deep: 8 for 256 copies.
void combine_in_tree(ReduceOp op, DataType dtype, kernels::Scale prescale, std::byte* sum,
                     std::span<const std::byte* const> copies, std::size_t elements);

}  // namespace rueda
