// SPDX-License-Identifier: Apache-2.0
#include "ops/compression/error_feedback.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace rueda {

ErrorFeedback::Residual& ErrorFeedback::find(const Key& key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    residuals_.splice(residuals_.begin(), residuals_, found->second);
    return residuals_.front();
  }
  if (residuals_.size() >= kMost) {
    const auto last = std::find_if(residuals_.rbegin(), residuals_.rend(),
                                   [](const Residual& each) { return each.turns.empty(); });
    if (last != residuals_.rend()) {
      by_key_.erase(last->key);
      residuals_.erase(std::prev(last.base()));
    }
  }
  residuals_.emplace_front(key);
  by_key_.emplace(key, residuals_.begin());
  return residuals_.front();
}

bool ErrorFeedback::Lease::begin(const Cut& cut, const Memory& memory) {
  Residual& residual = *residual_;
  if (residual.turns.front() != turn_) return false;
  constexpr std::string_view kWhat = "what top-k compression keeps back";
  const auto bytes = static_cast<std::size_t>(cut.own) * sizeof(float);
  if (residual.cut != cut) {
    HostBuffer next = memory.get(kWhat, bytes);
    residual.kept = {};
    residual.next = std::move(next);
    residual.begun = false;
    residual.cut = cut;
  }
  // The second buffer comes with the second use.
  if (residual.next.data() == nullptr) residual.next = memory.get(kWhat, bytes);
  return true;
}

}  // namespace rueda
