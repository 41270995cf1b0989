// SPDX-License-Identifier: Apache-2.0
// Which tensors lie in a part of the fused buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

#include "core/control/messages/plan.h"

namespace rueda {

// Calls visit(tensor, offset in it, offset from `begin`, bytes) for what lies in bytes [begin, end) of the
// fused buffer, in order, and not for what is between tensors. A tensor alone begins at 0, wherever it lies.
// No piece has more than `most` bytes.
template <class Visit>
void for_each_piece(const Plan& plan, std::size_t begin, std::size_t end, Visit visit,
                    std::size_t most = std::numeric_limits<std::size_t>::max()) {
  auto place = [](const PlanTensor& tensor) { return static_cast<std::size_t>(tensor.offset); };
  const bool alone = plan.tensors.size() == 1;
  const auto after = alone ? plan.tensors.end() : std::ranges::upper_bound(plan.tensors, begin, {}, place);
  for (auto tensor = after == plan.tensors.begin() ? after : std::prev(after); tensor != plan.tensors.end();
       ++tensor) {
    const std::size_t offset = alone ? 0 : place(*tensor);
    if (offset >= end) return;
    const auto bytes = static_cast<std::size_t>(tensor->elements()) * size_of(plan.dtype);
    const std::size_t last = std::min(offset + bytes, end);
    for (std::size_t first = std::max(offset, begin), part = 0; first < last; first += part) {
      part = std::min(most, last - first);
      visit(static_cast<std::size_t>(tensor - plan.tensors.begin()), first - offset, first - begin, part);
    }
  }
}

}  // namespace rueda
