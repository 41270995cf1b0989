// SPDX-License-Identifier: Apache-2.0
// The order in which values of several ranks are combined where it is fixed: a balanced tree.
//
// The left of the root has as many members as the largest power of two below their number. So it has 2 of 4,
// and 4 of 5 to 8. Each side is such a tree again: ((0+1)+(2+3))+(4+5). So 2^i members that begin at a
// multiple of 2^i are a subtree, and one of them may bring its sum. 4 ranks, 2 ranks with two values each,
// and one rank with 4 values come to the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "ops/schedules/scaled_reduction.h"

namespace rueda {

// How many of `members`, at least 2, are on the left of the root.
std::size_t left_of_root(std::size_t members);

// Purpose: combines copies of a vector, one of each member, a block at a time. A value; part of a Work.
class ReductionTree {
 public:
  static constexpr std::size_t kBlockBytes = 8192;

  explicit ReductionTree(const ScaledReduction& reduction);

  // sum = `elements` values of all `copies`, from `offset` bytes on, combined in their order, without the
  // postscale: accumulators of kBlockBytes at most. Uses as many times kBlockBytes of stack as the tree is
  // deep: 8 for 256 copies.
  void combine(std::byte* sum, std::span<const std::byte* const> copies, std::size_t offset,
               std::size_t elements) const;

 private:
  void combine_right(std::byte* sum, std::span<const std::byte* const> copies, std::size_t offset,
                     std::size_t elements) const;

  const kernels::Kernels* sums_;
  const kernels::Kernels* values_;  // of the copies
  ReduceOp op_;
  kernels::Scale prescale_;
};

}  // namespace rueda
