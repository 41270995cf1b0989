// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/one_shot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/algorithms/reduction.h"
#include "ops/kernels/pack.h"
#include "ops/tree_order.h"

namespace rueda::one_shot {
namespace {

constexpr std::uint64_t kWritten = 1;
constexpr std::uint64_t kLeft = 2;
constexpr std::uint64_t kAbandoned = 3;  // written nothing and left

std::uint64_t at(std::uint64_t plan, std::uint64_t phase) { return (plan << 24) + phase; }

using Block = std::array<std::byte, SegmentContents::kSlotBytes>;

// Purpose: one Plan's passage through the slots.
class OneShot final : public Work {
 public:
  OneShot(const Plan& plan, std::span<Entry> entries, Neighbours& neighbours, Rank rank, LastUse own,
          LastUse last, std::size_t slot)
      : plan_(plan),
        entries_(plan.operation == Operation::barrier ? std::span<Entry>() : entries),
        neighbours_(neighbours),
        rank_(rank),
        own_(std::move(own)),
        last_(std::move(last)),
        slot_(slot),
        value_size_(size_of(plan.dtype)),
        sum_size_(size_of(accumulator_of(plan.dtype))),
        reduction_(ScaledReduction::of(plan, static_cast<Rank>(own_.members.size()))) {}

  Step step() override {
    if (!written_) {
      if (!slot_is_free()) return Step::waiting;
      if (abandoned_) return leave(kAbandoned);
      for (std::size_t i = 0; i < entries_.size(); ++i) pack(i);
      flag(rank_).value.store(at(plan_.number, kWritten));
      for (Rank member : own_.members) {
        if (member != rank_) neighbours_.bell(member).ring();
      }
      written_ = true;
    }
    if (abandoned_) return leave(kLeft);
    if (!reached(own_, kWritten, arrived_)) return Step::waiting;
    abandoned_ = std::ranges::any_of(own_.members, [this](Rank member) {
      return flag(member).value.load() == at(plan_.number, kAbandoned);
    });
    if (!entries_.empty() && !abandoned_) reduce();
    return leave(kLeft);
  }

  void abandon() override { abandoned_ = true; }

  std::string_view phase() const override {
    return written_ ? "waiting for the values of other ranks"
                    : "waiting until others have read the last ones";
  }

 private:
  SegmentContents::Flag& flag(Rank rank) { return neighbours_.contents(rank).flags[slot_]; }
  std::byte* slot(Rank rank) { return neighbours_.contents(rank).slots[slot_]; }

  Step leave(std::uint64_t phase) {
    flag(rank_).value.store(at(plan_.number, phase));
    for (Rank member : own_.members) {
      if (member == rank_) continue;
      if (phase == kAbandoned || flag(member).wanted.load() != 0) neighbours_.bell(member).ring();
    }
    return abandoned_ ? Step::given_up : Step::done;
  }

  // Whether all members of `use` have come to `phase`; `count` of them are known to have.
  bool reached(const LastUse& use, std::uint64_t phase, std::size_t& count) {
    while (count < use.members.size() && flag(use.members[count]).value.load() >= at(use.plan, phase))
      ++count;
    return count == use.members.size();
  }

  bool slot_is_free() {
    if (reached(last_, kLeft, left_)) return free();
    flag(rank_).wanted.store(1);
    return reached(last_, kLeft, left_) && free();
  }

  bool free() {
    if (flag(rank_).wanted.load(std::memory_order_relaxed) != 0) flag(rank_).wanted.store(0);
    return true;
  }

  std::size_t place(std::size_t i) const {
    return static_cast<std::size_t>(plan_.tensors[i].offset) / value_size_ * sum_size_;
  }

  void pack(std::size_t i) {
    const ConstTensorView& input = entries_[i].submission().input;
    const void* values = input.data;
    Block packed;
    if (!input.contiguous()) {
      kernels::Packing packing = kernels::Packing::pack(packed.data(), input);
      while (packing.advance() > 0) continue;
      values = packed.data();
    }
    kernels::kernels_for(plan_.dtype)
        .load(slot(rank_) + place(i), values, static_cast<std::size_t>(input.elements()),
              reduction_.prescale);
  }

  void reduce() {
    const TreeOrder tree({accumulator_of(plan_.dtype), reduction_.op});
    alignas(64) Block sum;
    std::vector<const std::byte*> slots(own_.members.size());
    std::ranges::transform(own_.members, slots.begin(), [this](Rank member) { return slot(member); });
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const auto elements = static_cast<std::size_t>(entries_[i].submission().input.elements());
      tree.combine(sum.data(), slots, place(i), elements);
      unpack(i, sum.data(), elements);
    }
  }

  void unpack(std::size_t i, const std::byte* sum, std::size_t elements) {
    const TensorView& output = entries_[i].submission().output;
    const kernels::Kernels& values = kernels::kernels_for(plan_.dtype);
    if (output.contiguous()) return values.store(output.data, sum, elements, reduction_.postscale);
    Block packed;
    values.store(packed.data(), sum, elements, reduction_.postscale);
    kernels::Packing unpacking = kernels::Packing::unpack(output, packed.data());
    while (unpacking.advance() > 0) continue;
  }

  const Plan& plan_;
  std::span<Entry> entries_;
  Neighbours& neighbours_;
  Rank rank_;
  LastUse own_;
  LastUse last_;
  std::size_t slot_;
  std::size_t value_size_;
  std::size_t sum_size_;  // bytes of an accumulator
  ScaledReduction reduction_;
  std::size_t left_ = 0;     // of the last Plan's members
  std::size_t arrived_ = 0;  // of this Plan's members
  bool written_ = false;
  bool abandoned_ = false;
};

}  // namespace

bool fits(const Plan& plan) {
  if (plan.operation == Operation::barrier) return true;
  if (plan.operation != Operation::allreduce || plan.reduce_op == ReduceOp::adasum) return false;
  const auto size = static_cast<std::int64_t>(size_of(plan.dtype));
  const auto room =
      static_cast<std::int64_t>(SegmentContents::kSlotBytes / size_of(accumulator_of(plan.dtype)));
  return std::ranges::all_of(plan.tensors, [&](const PlanTensor& tensor) {
    return tensor.offset >= 0 && tensor.offset % size == 0 && tensor.offset / size <= room &&
           tensor.elements() >= 0 && tensor.elements() <= room - tensor.offset / size;
  });
}

std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, Neighbours& neighbours, Rank rank,
                            std::vector<Rank> members, std::size_t slot, LastUse& last) {
  LastUse own{plan.number, std::move(members)};
  LastUse before = std::exchange(last, own);
  return std::make_unique<OneShot>(plan, entries, neighbours, rank, std::move(own), std::move(before), slot);
}

}  // namespace rueda::one_shot
