// SPDX-License-Identifier: Apache-2.0
#include "ops/arithmetic/squared_norm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ops/buffers/fused_range.h"
#include "ops/buffers/tensor_segments.h"

namespace rueda {
namespace {

// Purpose: the elements of a tensor of any strides in row-major order, from one on. A plain value; refers to
// the tensor.
class ElementWalk {
 public:
  ElementWalk(const TensorView& tensor, std::int64_t from) : tensor_(tensor), index_(tensor.shape.size()) {
    for (std::size_t d = index_.size(); d-- > 0; from /= tensor.shape[d]) {
      index_[d] = from % tensor.shape[d];
      offset_ += index_[d] * tensor.strides[d];
    }
  }
  void copy(std::byte* to, std::size_t count) {
    const std::size_t size = size_of(tensor_.dtype);
    const auto* from = static_cast<const std::byte*>(tensor_.data);
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * size, from + offset_ * static_cast<std::int64_t>(size), size);
      advance();
    }
  }

 private:
  void advance() {
    for (std::size_t d = index_.size(); d-- > 0;) {
      offset_ += tensor_.strides[d];
      if (++index_[d] < tensor_.shape[d]) return;
      offset_ -= tensor_.strides[d] * tensor_.shape[d];
      index_[d] = 0;
    }
  }

  const TensorView& tensor_;
  Shape index_;
  std::int64_t offset_ = 0;  // elements
};

// Purpose: a Work, and then the squares of an even part of its result, some of them a step.
class MeasuredWork final : public Work {
 public:
  MeasuredWork(std::unique_ptr<Work> work, const Plan& plan, std::span<Entry> entries, TensorSegments parts)
      : work_(std::move(work)), entries_(entries), squares_(plan, entries), parts_(parts) {}

  Step step() override {
    if (work_) {
      const Step step = work_->step();
      if (step == Step::done) {
        route_ = work_->route();
        work_.reset();
      }
      return work_ ? step : Step::again;
    }
    if (abandoned_) return Step::given_up;
    return count_some() ? Step::again : Step::done;
  }
  void abandon() override {
    abandoned_ = true;
    if (work_) work_->abandon();
  }
  std::string_view phase() const override { return work_ ? work_->phase() : "measuring the result"; }
  PlanRoute route() const override { return route_; }

 private:
  static constexpr std::int64_t kStepElements = 1 << 18;
  static constexpr std::int64_t kCostOfPart = 64;  // as of so many elements

  // False when all has been counted before.
  bool count_some() {
    for (std::int64_t left = kStepElements; left > 0;) {
      const TensorSegments::Part part = parts_.next(left);
      if (part.count == 0) return false;
      count(part);
      left -= part.count + kCostOfPart;
    }
    return true;
  }

  void count(const TensorSegments::Part& part) const {
    const TensorView& output = entries_[part.tensor].submission().output;
    const std::size_t size = size_of(output.dtype);
    auto elements = static_cast<std::size_t>(part.count);
    if (output.contiguous()) {
      const auto* values = static_cast<const std::byte*>(output.data);
      return squares_.add(part.tensor, values + static_cast<std::size_t>(part.begin) * size, elements);
    }
    alignas(64) std::array<std::byte, 4096> block;
    for (ElementWalk walk(output, part.begin); elements > 0;) {
      const std::size_t some = std::min(elements, block.size() / size);
      walk.copy(block.data(), some);
      squares_.add(part.tensor, block.data(), some);
      elements -= some;
    }
  }

  std::unique_ptr<Work> work_;  // null: over
  std::span<Entry> entries_;
  const SquaredNorm squares_;
  TensorSegments parts_;  // this rank's
  PlanRoute route_;       // of the Work, once that is over
  bool abandoned_ = false;
};

}  // namespace

std::optional<SquaredNorm> SquaredNorm::on_the_way(const Plan& plan, std::span<Entry> entries) {
  if (!plan.measure || !plan.joined.empty() || plan.reduce_op == ReduceOp::adasum) return std::nullopt;
  if (plan.compression == Compression::topk) return std::nullopt;
  return SquaredNorm(plan, entries);
}

void SquaredNorm::add_fused(std::int64_t begin, const std::byte* values, std::int64_t elements) const {
  const std::size_t size = size_of(plan_->dtype), first = static_cast<std::size_t>(begin) * size;
  const std::size_t end = first + static_cast<std::size_t>(elements) * size;
  for (const FusedPiece& piece : FusedRange(*plan_, first, end))
    add(piece.tensor, values + piece.in_range, piece.bytes / size);
}

std::unique_ptr<Work> measured_after(std::unique_ptr<Work> work, const Plan& plan, std::span<Entry> entries,
                                     Rank rank) {
  const RankSet counting = plan.measure ? *plan.members - plan.joined : RankSet();
  if (!counting.contains(rank)) return work;
  const TensorSegments parts(plan, counting.index_of(rank), counting.count());
  return std::make_unique<MeasuredWork>(std::move(work), plan, entries, parts);
}

}  // namespace rueda
