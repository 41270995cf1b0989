// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/one_shot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/engine/submissions/submission.h"
#include "ops/buffers/inline_vectors.h"
#include "ops/kernels/line.h"
#include "ops/kernels/pack.h"
#include "ops/schedules/reduction_tree.h"
#include "ops/schedules/scaled_reduction.h"
#include "ops/shm/store_policy.h"

namespace rueda::one_shot {
namespace {

constexpr std::uint64_t kWritten = 1;
constexpr std::uint64_t kLeft = 2;
constexpr std::uint64_t kAbandoned = 3;  // written nothing and left
constexpr std::int64_t kTimed = 512;     // bytes; what is shorter does not pay for looking at the clock

std::uint64_t at(std::uint64_t plan, std::uint64_t phase) { return (plan << 24) + phase; }

using Block = std::array<std::byte, SegmentContents::kSlotBytes>;

// Purpose: one Plan's passage through the slots.
class OneShot : public Work {
 public:
  // Each rank gives `bytes` at most.
  OneShot(const Plan& plan, std::size_t bytes, const WorkContext& context)
      : plan_(plan),
        peers_(context.peers),
        last_(context.last),
        slot_(context.number),
        beside_flag_(bytes <= sizeof(Flag::values)),
        slots_(lists_, peers_.size()),
        awaited_end_(peers_.size()) {
    if (plan.buffer_bytes > kTimed && context.stores != nullptr)
      stores_ = TimedStores(context.stores->one_shot);
    for (std::size_t i = 0; last_.peers != nullptr && i < last_.peers->size(); ++i)
      kernels::fetch(&flag(*last_.peers, i).value);  // all this is on its way while the rest is made
    for (const PeerGroup::Member& member : peers_.members) slots_.emplace_back(slot_of(member));
    kernels::fetch_to_write(own_slot());
    context.last.plan = plan.number;
    context.last.peers = &peers_;
  }

  Step step() final {
    if (state_ == State::made) {
      if (!slot_is_free()) return Step::waiting;
      if (abandoned_) return leave(kAbandoned);
      state_ = State::begun;
      if (gives()) write();
    }
    if (abandoned_) return leave(kLeft);
    if (!all_have_written()) {
      ring_for_values();
      return Step::waiting;
    }
    if (abandoned_) return leave(kLeft);
    {
      const TimedStores::Timing timing(stores_);
      take();
    }
    stores_.tell(static_cast<std::size_t>(plan_.buffer_bytes));
    return leave(kLeft);
  }

  void abandon() final { abandoned_ = true; }

  std::string_view phase() const final {
    return state_ != State::made ? "waiting for the values of other ranks"
                                 : "waiting until others have read the last ones";
  }
  PlanRoute route() const final { return {.inside = "one-shot"}; }

 protected:
  const TimedStores& stores() const { return stores_; }
  // This rank's values, into its slot.
  virtual void pack(std::byte* /*slot*/) {}
  // When those that are awaited have written, out of the slots of all.
  virtual void take() {}

  // Of all members by default.
  void await_values_of(std::size_t member) {
    arrived_ = awaited_begin_ = member;
    awaited_end_ = member + 1;
    if (!gives()) stores_ = {};  // it stores nothing for others
  }
  bool gives() const { return peers_.index >= awaited_begin_ && peers_.index < awaited_end_; }
  std::span<const std::byte* const> slots() const { return slots_.all(); }

  // A tensor that fits into a slot, into `to`, or where it lies if that will do.
  static const void* contiguous(const ConstTensorView& tensor, Block& room) {
    if (tensor.contiguous()) return tensor.data;
    kernels::Packing packing = kernels::Packing::pack(room.data(), tensor);
    while (packing.advance() > 0) continue;
    return room.data();
  }
  static void put(const TensorView& tensor, const void* values) {
    kernels::Packing unpacking = kernels::Packing::unpack(tensor, values);
    while (unpacking.advance() > 0) continue;
  }

  const Plan& plan_;

 private:
  using Flag = SegmentContents::Flag;
  enum class State {
    made,     // the slot may be others'
    to_ring,  // this rank's values are there, and members may sleep that await them
    begun,
  };

  Flag& flag(const PeerGroup& peers, std::size_t member) const {
    return peers.members[member].contents->flags[slot_];
  }
  Flag& own() const { return flag(peers_, peers_.index); }
  std::byte* slot_of(const PeerGroup::Member& member) const {
    SegmentContents& its = *member.contents;
    return beside_flag_ ? its.flags[slot_].values : its.slots[slot_];
  }
  std::byte* own_slot() const { return slot_of(peers_.members[peers_.index]); }

  void write() {
    {
      const TimedStores::Timing timing(stores_);
      pack(own_slot());
    }
    own().value.store(at(plan_.number, kWritten));
    state_ = State::to_ring;
  }

  // The others' values first, if they are there: a rank that is awake needs no bell.
  void ring_for_values() {
    if (state_ != State::to_ring) return;
    state_ = State::begun;
    peers_.ring_who_awaits([&](std::size_t member) -> auto& { return flag(peers_, member).awaited; });
  }

  Step leave(std::uint64_t phase) {
    ring_for_values();
    own().value.store(at(plan_.number, phase));
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (i == peers_.index) continue;
      if (phase == kAbandoned || flag(peers_, i).wanted.load() != 0) peers_.members[i].doorbell->ring();
    }
    return abandoned_ ? Step::given_up : Step::done;
  }

  // Or will not.
  bool all_have_written() {
    while (arrived_ < awaited_end_) {
      const std::uint64_t value = flag(peers_, arrived_).value.load();
      if (value < at(plan_.number, kWritten)) {
        if (!PeerGroup::await(own().awaited, arrived_)) return false;
        continue;  // once more
      }
      if (value == at(plan_.number, kAbandoned)) abandoned_ = true;
      ++arrived_;
    }
    return true;
  }

  // Whether all members of the slot's last Plan have left it.
  bool all_left() {
    const std::size_t members = last_.peers == nullptr ? 0 : last_.peers->size();
    while (left_ < members && flag(*last_.peers, left_).value.load() >= at(last_.plan, kLeft)) ++left_;
    return left_ == members;
  }

  bool slot_is_free() {
    if (!all_left()) {
      own().wanted.store(1);
      if (!all_left()) return false;
    }
    if (own().wanted.load(std::memory_order_relaxed) != 0) own().wanted.store(0);
    return true;
  }

  const PeerGroup& peers_;
  const LastUse last_;  // of the slot, before this one
  const std::size_t slot_;
  const bool beside_flag_;  // where the values are
  InlineVectors lists_;
  InlineVector<const std::byte*> slots_;  // of the members
  TimedStores stores_;
  std::size_t awaited_begin_ = 0;  // members whose values are waited for, up to awaited_end_
  std::size_t awaited_end_;
  std::size_t left_ = 0;     // of the last Plan's members
  std::size_t arrived_ = 0;  // of the awaited members
  State state_ = State::made;
  bool abandoned_ = false;
};

// As accumulators.
std::size_t bytes_of_sums(const Plan& plan) {
  std::int64_t elements = 0;
  const auto size = static_cast<std::int64_t>(size_of(plan.dtype));
  for (const PlanTensor& tensor : plan.tensors)
    elements = std::max(elements, tensor.offset / size + tensor.elements());
  return static_cast<std::size_t>(elements) * kernels::accumulation_of(plan.dtype, plan.reduce_op).sum_size;
}

class ShortAllreduce final : public OneShot {
 public:
  ShortAllreduce(const Plan& plan, std::span<Entry> entries, const WorkContext& context)
      : OneShot(plan, bytes_of_sums(plan), context),
        entries_(entries),
        value_size_(size_of(plan.dtype)),
        reduction_(ScaledReduction::of(plan, static_cast<Rank>(context.peers.size()))),
        accumulation_(reduction_.accumulation()) {}

 private:
  std::size_t offset_of(std::size_t i) const {
    return static_cast<std::size_t>(plan_.tensors[i].offset) / value_size_ * accumulation_.sum_size;
  }

  void pack(std::byte* slot) override {
    Block room;
    alignas(64) Block loaded;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const ConstTensorView& input = entries_[i].submission().input;
      const auto elements = static_cast<std::size_t>(input.elements());
      std::byte* const to = stores().streamed() ? loaded.data() : slot + offset_of(i);
      accumulation_.values->load(to, contiguous(input, room), elements, reduction_.prescale);
      if (stores().streamed()) stores().copy(slot + offset_of(i), to, elements * accumulation_.sum_size);
    }
  }

  void take() override {
    const ReductionTree tree({.dtype = plan_.dtype, .op = reduction_.op, .of_sums = true});
    alignas(64) Block sum;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const auto elements = static_cast<std::size_t>(entries_[i].submission().input.elements());
      tree.combine(sum.data(), slots(), offset_of(i), elements);
      unpack(entries_[i].submission().output, sum.data(), elements);
    }
  }

  void unpack(const TensorView& output, const std::byte* sum, std::size_t elements) {
    const kernels::Kernels& values = *accumulation_.values;
    if (output.contiguous()) return values.store(output.data, sum, elements, reduction_.postscale);
    Block packed;
    values.store(packed.data(), sum, elements, reduction_.postscale);
    put(output, packed.data());
  }

  const std::span<Entry> entries_;
  const std::size_t value_size_;
  const ScaledReduction reduction_;
  const kernels::Accumulation& accumulation_;
};

// The root of a broadcast waits for nobody.
class ShortBroadcast final : public OneShot {
 public:
  ShortBroadcast(const Plan& plan, Entry& entry, const WorkContext& context)
      : OneShot(plan, static_cast<std::size_t>(plan.tensors.front().elements()) * size_of(plan.dtype),
                context),
        submission_(entry.submission()),
        root_(static_cast<std::size_t>(plan.members->index_of(plan.root))) {
    await_values_of(root_);
  }

 private:
  void pack(std::byte* slot) override {
    Block room;
    const auto bytes = static_cast<std::size_t>(submission_.input.bytes());
    stores().copy(slot, contiguous(submission_.input, room), bytes);
  }
  void take() override {
    const bool in_place = gives() && submission_.output.data == submission_.input.data;
    if (!in_place) put(submission_.output, slots()[root_]);
  }

  const Submission& submission_;
  const std::size_t root_;
};

bool fits_broadcast(const Plan& plan) {
  const std::int64_t elements = plan.tensors.size() == 1 ? plan.tensors.front().elements() : -1;
  const auto most = static_cast<std::int64_t>(SegmentContents::kSlotBytes / size_of(plan.dtype));
  return elements >= 0 && elements <= most && plan.members && plan.members->contains(plan.root);
}

}  // namespace

bool fits(const Plan& plan) {
  if (plan.operation == Operation::barrier) return true;
  if (plan.operation == Operation::broadcast) return fits_broadcast(plan);
  if (plan.operation != Operation::allreduce || plan.reduce_op == ReduceOp::adasum) return false;
  if (plan.buffer_bytes > static_cast<std::int64_t>(SegmentContents::kSlotBytes)) return false;
  const auto size = static_cast<std::int64_t>(size_of(plan.dtype));
  const std::size_t sum_size = kernels::accumulation_of(plan.dtype, plan.reduce_op).sum_size;
  const auto room = static_cast<std::int64_t>(SegmentContents::kSlotBytes / sum_size);
  return std::ranges::all_of(plan.tensors, [&](const PlanTensor& tensor) {
    return tensor.offset >= 0 && tensor.offset % size == 0 && tensor.offset / size <= room &&
           tensor.elements() >= 0 && tensor.elements() <= room - tensor.offset / size;
  });
}

std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const WorkContext& context) {
  if (plan.operation == Operation::barrier) return std::make_unique<OneShot>(plan, 0, context);
  if (plan.operation == Operation::broadcast)
    return std::make_unique<ShortBroadcast>(plan, entries.front(), context);
  return std::make_unique<ShortAllreduce>(plan, entries, context);
}

}  // namespace rueda::one_shot
