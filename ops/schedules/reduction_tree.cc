// SPDX-License-Identifier: Apache-2.0
#include "ops/schedules/reduction_tree.h"

#include <array>
#include <bit>

namespace rueda {

std::size_t left_of_root(std::size_t members) { return std::bit_floor(members - 1); }

ReductionTree::ReductionTree(const ScaledReduction& reduction)
    : sums_(reduction.accumulation().sums),
      values_(reduction.of_sums ? sums_ : reduction.accumulation().values),
      op_(reduction.op),
      prescale_(reduction.prescale) {}

void ReductionTree::combine(std::byte* sum, std::span<const std::byte* const> copies, std::size_t offset,
                            std::size_t elements) const {
  if (copies.size() == 1) return values_->load(sum, copies.front() + offset, elements, prescale_);
  const std::size_t left = left_of_root(copies.size());
  combine(sum, copies.first(left), offset, elements);
  if (left + 1 < copies.size()) return combine_right(sum, copies.subspan(left), offset, elements);
  values_->combine(op_, sum, copies.back() + offset, elements, prescale_);
}

// Not inlined: who goes left needs no room for a second sum.
__attribute__((noinline)) void ReductionTree::combine_right(std::byte* sum,
                                                            std::span<const std::byte* const> copies,
                                                            std::size_t offset, std::size_t elements) const {
  alignas(64) std::array<std::byte, kBlockBytes> right;
  combine(right.data(), copies, offset, elements);
  sums_->combine(op_, sum, right.data(), elements, {});
}

}  // namespace rueda
