// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/one_shot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/algorithms/reduction.h"
#include "ops/kernels/pack.h"
#include "ops/short_lists.h"
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
  OneShot(const Plan& plan, std::span<Entry> entries, Neighbours& neighbours, Rank rank,
          std::span<const Rank> members, std::size_t slot, LastUse& last)
      : plan_(plan),
        entries_(plan.operation == Operation::barrier ? std::span<Entry>() : entries),
        last_plan_(last.plan),
        value_size_(size_of(plan.dtype)),
        sum_size_(size_of(accumulator_of(plan.dtype))),
        reduction_(ScaledReduction::of(plan, static_cast<Rank>(members.size()))) {
    last_.reserve(last.members.size());
    for (Rank member : last.members) last_.push_back(&neighbours.contents(member).flags[slot]);
    members_.reserve(members.size());
    slots_.reserve(members.size());
    for (Rank member : members) {
      SegmentContents& contents = neighbours.contents(member);
      if (member == rank) {
        place_ = members_.size();
        own_slot_ = contents.slots[slot];
      }
      members_.push_back({&contents.flags[slot], &neighbours.bell(member)});
      slots_.push_back(contents.slots[slot]);
    }
    last.plan = plan.number;
    last.members.assign(members.begin(), members.end());
  }

  Step step() override {
    if (!written_) {
      if (!slot_is_free()) return Step::waiting;
      if (abandoned_) return leave(kAbandoned);
      for (std::size_t i = 0; i < entries_.size(); ++i) pack(i);
      own().value.store(at(plan_.number, kWritten));
      for (std::size_t i = 0; i < members_.size(); ++i) {
        if (i != place_) members_[i].bell->ring();
      }
      written_ = true;
    }
    if (abandoned_) return leave(kLeft);
    if (!all_have_written()) return Step::waiting;
    if (!entries_.empty() && !abandoned_) reduce();
    return leave(kLeft);
  }

  void abandon() override { abandoned_ = true; }

  std::string_view phase() const override {
    return written_ ? "waiting for the values of other ranks"
                    : "waiting until others have read the last ones";
  }

 private:
  using Flag = SegmentContents::Flag;

  struct Member {
    Flag* flag;
    Bell* bell;
  };

  Flag& own() { return *members_[place_].flag; }

  Step leave(std::uint64_t phase) {
    own().value.store(at(plan_.number, phase));
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (i == place_) continue;
      if (phase == kAbandoned || members_[i].flag->wanted.load() != 0) members_[i].bell->ring();
    }
    return abandoned_ ? Step::given_up : Step::done;
  }

  // Or will not.
  bool all_have_written() {
    for (; arrived_ < members_.size(); ++arrived_) {
      const std::uint64_t value = members_[arrived_].flag->value.load();
      if (value < at(plan_.number, kWritten)) return false;
      if (value == at(plan_.number, kAbandoned)) abandoned_ = true;
    }
    return true;
  }

  // Whether all members of the slot's last Plan have left it.
  bool all_left() {
    while (left_ < last_.size() && last_[left_]->value.load() >= at(last_plan_, kLeft)) ++left_;
    return left_ == last_.size();
  }

  bool slot_is_free() {
    if (!all_left()) {
      own().wanted.store(1);
      if (!all_left()) return false;
    }
    if (own().wanted.load(std::memory_order_relaxed) != 0) own().wanted.store(0);
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
        .load(own_slot_ + place(i), values, static_cast<std::size_t>(input.elements()), reduction_.prescale);
  }

  void reduce() {
    const TreeOrder tree({accumulator_of(plan_.dtype), reduction_.op});
    alignas(64) Block sum;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const auto elements = static_cast<std::size_t>(entries_[i].submission().input.elements());
      tree.combine(sum.data(), slots_, place(i), elements);
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
  ShortLists lists_;
  std::pmr::vector<Member> members_{lists_.memory()};
  std::pmr::vector<const std::byte*> slots_{lists_.memory()};  // of the members
  std::pmr::vector<Flag*> last_{lists_.memory()};              // of the members of the slot's last Plan
  std::uint64_t last_plan_;
  std::size_t place_ = 0;  // of this rank among the members
  std::byte* own_slot_ = nullptr;
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
                            std::span<const Rank> members, std::size_t slot, LastUse& last) {
  return std::make_unique<OneShot>(plan, entries, neighbours, rank, members, slot, last);
}

}  // namespace rueda::one_shot
