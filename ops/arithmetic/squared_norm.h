// SPDX-License-Identifier: Apache-2.0
// The squares of an allreduce's result, summed up (Reduction::measure): each element by one rank.
//
// The rank that reduces an element adds its square while the element is in the cache. Members that have
// joined reduce their part too, but nobody asks them for squares. Then the other members count equal parts of
// their results at the end. They also do so if every rank or none reduces an element alone (one-shots,
// adasum, top-k, one rank).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/control/messages/plan.h"
#include "core/engine/submissions/entry.h"
#include "core/engine/work.h"
#include "ops/kernels/kernels.h"

namespace rueda {

// Purpose: adds squares to the Handles of a Plan's tensors. Part of a Work, or of its algorithm; refers to
// its Plan and entries.
class SquaredNorm {
 public:
  SquaredNorm(const Plan& plan, std::span<Entry> entries)
      : plan_(&plan), entries_(entries), kernels_(&kernels::kernels_for(plan.dtype)) {}
  // For who reduces elements that no other rank does; none where they are not to be counted on the way.
  static std::optional<SquaredNorm> on_the_way(const Plan& plan, std::span<Entry> entries);

  // Some elements of a tensor.
  void add(std::size_t tensor, const void* values, std::size_t elements) const {
    entries_[tensor].handle->numbers.square_sum += kernels_->square_sum(values, elements);
  }
  // Some elements of the fused buffer from number `begin` on, of whatever tensors.
  void add_fused(std::int64_t begin, const std::byte* values, std::int64_t elements) const;

 private:
  const Plan* plan_;
  std::span<Entry> entries_;
  const kernels::Kernels* kernels_;
};

// `work`, and then, if the Plan is measured, this rank's part of the result is counted.
std::unique_ptr<Work> measured_after(std::unique_ptr<Work> work, const Plan& plan, std::span<Entry> entries,
                                     Rank rank);

}  // namespace rueda
