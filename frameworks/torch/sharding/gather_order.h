// SPDX-License-Identifier: Apache-2.0
// In which order a model needs its units.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace rueda {

// Purpose: remembers which units the last pass needed, one after another, without gradients and with, and so
// tells which one comes next while a pass goes the same way. Belongs to a UnitScheduler, whose thread uses
// it.
class GatherOrder {
 public:
  void begin_pass(bool with_gradients) {
    last_[with_gradients_ ? 1 : 0] = std::move(needs_);
    needs_.clear();
    with_gradients_ = with_gradients;
    as_expected_ = true;
  }
  bool with_gradients() const { return with_gradients_; }
  // The unit that this pass needs next; nothing where it goes another way, or further.
  std::optional<std::size_t> expected() const {
    const std::vector<std::size_t>& last = last_[with_gradients_ ? 1 : 0];
    if (!as_expected_ || needs_.size() >= last.size()) return std::nullopt;
    return last[needs_.size()];
  }
  // This pass needs that unit now.
  void note(std::size_t unit) {
    as_expected_ = expected() == unit;
    needs_.push_back(unit);
  }
  // Nothing is expected until a pass has shown the order anew.
  void forget() {
    last_ = {};
    needs_.clear();
    as_expected_ = false;
  }

 private:
  std::array<std::vector<std::size_t>, 2> last_;  // of the last passes: without gradients, and with
  std::vector<std::size_t> needs_;                // of this pass
  bool with_gradients_ = false;
  bool as_expected_ = true;
};

}  // namespace rueda
