// SPDX-License-Identifier: Apache-2.0
// Which tensors lie in a part of the fused buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

#include "core/control/messages/plan.h"

namespace rueda {

// The part of one tensor in a range of the fused buffer.
struct FusedPiece {
  std::size_t tensor = 0;     // its number in the Plan
  std::size_t in_tensor = 0;  // offset in it
  std::size_t in_range = 0;   // offset from the begin of the range
  std::size_t bytes = 0;
};

// Purpose: the pieces of tensors in bytes [begin, end) of the fused buffer, in order. Bytes between tensors
// belong to no piece. A tensor alone begins at 0, wherever it lies. No piece has more than `most` bytes. For
// range-based loops; refers to its Plan.
class FusedRange {
 public:
  FusedRange(const Plan& plan, std::size_t begin, std::size_t end,
             std::size_t most = std::numeric_limits<std::size_t>::max())
      : plan_(plan), begin_(begin), end_(end), most_(most) {}

  class Iterator {
   public:
    explicit Iterator(const FusedRange& range) : range_(&range), offset_(range.begin_) {
      const auto& tensors = range.plan_.tensors;
      auto offset = [](const PlanTensor& tensor) { return static_cast<std::size_t>(tensor.offset); };
      const auto after = std::ranges::upper_bound(tensors, offset_, {}, offset);
      if (tensors.size() > 1 && after != tensors.begin())
        piece_.tensor = static_cast<std::size_t>(after - tensors.begin()) - 1;
      find();
    }
    const FusedPiece& operator*() const { return piece_; }
    Iterator& operator++() {
      offset_ += piece_.bytes;
      find();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return piece_.bytes == 0; }

   private:
    // Finds the next piece from offset_ on. At the end it has no bytes.
    void find() {
      const auto& tensors = range_->plan_.tensors;
      for (piece_.bytes = 0; piece_.tensor < tensors.size(); ++piece_.tensor) {
        const PlanTensor& tensor = tensors[piece_.tensor];
        const std::size_t offset = tensors.size() == 1 ? 0 : static_cast<std::size_t>(tensor.offset);
        if (offset >= range_->end_) return;
        const auto bytes = static_cast<std::size_t>(tensor.elements()) * size_of(range_->plan_.dtype);
        const std::size_t last = std::min(offset + bytes, range_->end_);
        offset_ = std::max(offset_, offset);
        if (offset_ >= last) continue;
        piece_.in_tensor = offset_ - offset;
        piece_.in_range = offset_ - range_->begin_;
        piece_.bytes = std::min(range_->most_, last - offset_);
        return;
      }
    }

    const FusedRange* range_;
    std::size_t offset_;  // in the fused buffer
    FusedPiece piece_;
  };
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  const Plan& plan_;
  const std::size_t begin_;
  const std::size_t end_;
  const std::size_t most_;
};

}  // namespace rueda
