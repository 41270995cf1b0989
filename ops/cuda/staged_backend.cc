// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/staged_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/base/host_buffer.h"
#include "core/base/operation_traits.h"
#include "core/engine/submissions/submission.h"

namespace rueda {
namespace {

// Bytes that are copied at once where the Work below can begin with the first of them: long enough that the
// device's bus is busy, short against a fused buffer.
constexpr std::size_t kPiece = std::size_t{1} << 20;

// Purpose: tensors of one device on their way through pinned memory. Several of them are one run of bytes
// that kernels pack and take apart. Pieces leave one by one, and come in as the Work below finishes them, if
// that Work asks for it. The blocks go back behind the fence of all that the device has been given.
class StagedTensors final : public StreamingProgress {
 public:
  StagedTensors(DeviceSide& side, std::span<Entry> entries) : side_(side), entries_(entries) {}
  StagedTensors(const StagedTensors&) = delete;
  StagedTensors& operator=(const StagedTensors&) = delete;
  ~StagedTensors() override {
    for (BlockPool::Block* block : {&host_, &made_}) {
      if (block->memory) side_.pinned.give_back(std::move(*block), fence_);
    }
    if (device_.memory) side_.memory.give_back(std::move(device_), fence_);
  }

  DeviceSide& side() { return side_; }
  bool all_arrived() { return arrived(bytes_); }
  void add(std::size_t entry, std::size_t bytes) {
    slots_.push_back({entry, bytes_, bytes});
    bytes_ += HostBuffer::whole_lines(bytes);
  }

  // Throws WorkFailure.
  void take_memory() {
    host_ = side_.pinned.take("its tensors in pinned memory", bytes_);
    if (slots_.size() > 1) device_ = side_.memory.take("its tensors packed on the device", bytes_);
  }
  // Once it is ready, all go out, `piece` bytes at a time, unless only their memory is needed.
  void copy_out(bool data, std::size_t piece) {
    for (const Slot& slot : slots_) submission(slot).ready->hold_back(side_.queue->stream());
    if (data) {
      if (device_.memory) pack();
      const auto* from = static_cast<const std::byte*>(
          device_.memory ? device_.data() : submission(slots_.front()).input.data);
      for (std::size_t begin = 0; begin < data_bytes(); begin += piece) {
        const std::size_t end = std::min(begin + piece, data_bytes());
        side_.queue->copy(host_.data() + begin, from + begin, end - begin);
        on_their_way_.push_back({begin, side_.queue->record()});
      }
    }
    mark();
  }

  bool arrived(std::size_t end) override {
    while (!on_their_way_.empty() && on_their_way_.front().behind->passed()) on_their_way_.pop_front();
    return on_their_way_.empty() || end <= on_their_way_.front().begin;
  }
  void finished(std::size_t end) override {
    if (end - taken_in_ >= kPiece) copy_in_until(end);
  }
  // Copies in the rest, and unpacks all into their tensors.
  void copy_in() {
    copy_in_until(data_bytes());
    if (device_.memory) unpack();
    mark();
  }

  // Of an operation that finds its own size: pinned memory for it, and the way from there to `output`.
  std::byte* make(std::size_t bytes) {
    made_ = side_.pinned.take("its output in pinned memory", bytes);
    return made_.data();
  }
  void copy_made(const TensorView& output) {
    // The program may have used until now what it has allocated just now.
    const Submission& made_for = submission(slots_.front());
    if (!made_for.into_output) side_.device.record(made_for.stream)->hold_back(side_.queue->stream());
    if (output.bytes() > 0) side_.queue->copy(output.data, made_.data(), output.bytes());
    mark();
  }

  // Calls visit(entry's number, its pinned memory).
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_) visit(slot.entry, host_.memory ? host_.data() + slot.offset : nullptr);
  }

 private:
  struct Slot {
    std::size_t entry = 0;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  struct Piece {
    std::size_t begin = 0;
    std::shared_ptr<const Fence> behind;
  };

  const Submission& submission(const Slot& slot) const { return entries_[slot.entry].submission(); }
  // A tensor alone ends with its last element.
  std::size_t data_bytes() const { return slots_.size() > 1 ? bytes_ : slots_.front().bytes; }

  void pack() {
    BatchCopy pack{DataType::uint8, DataType::uint8, 1.0, {}};
    for (const Slot& slot : slots_) {
      if (slot.bytes > 0)
        pack.pieces.push_back({submission(slot).input.data, device_.data() + slot.offset,
                               static_cast<std::int64_t>(slot.bytes)});
    }
    if (!pack.pieces.empty()) side_.queue->copy(pack);
  }
  void unpack() {
    BatchCopy unpack{DataType::uint8, DataType::uint8, 1.0, {}};
    for (const Slot& slot : slots_) {
      if (slot.bytes > 0)
        unpack.pieces.push_back({device_.data() + slot.offset, submission(slot).output.data,
                                 static_cast<std::int64_t>(slot.bytes)});
    }
    if (!unpack.pieces.empty()) side_.queue->copy(unpack);
  }
  void copy_in_until(std::size_t end) {
    if (end == taken_in_) return;
    auto* to =
        static_cast<std::byte*>(device_.memory ? device_.data() : submission(slots_.front()).output.data);
    side_.queue->copy(to + taken_in_, host_.data() + taken_in_, end - taken_in_);
    taken_in_ = end;
    mark();
  }
  // The device has to do with them until then.
  void mark() {
    fence_ = side_.queue->record();
    for (const Slot& slot : slots_) entries_[slot.entry].handle->fence = fence_;
  }

  DeviceSide& side_;
  std::span<Entry> entries_;
  std::vector<Slot> slots_;
  std::size_t bytes_ = 0;
  std::size_t taken_in_ = 0;  // of them, back to the device
  std::deque<Piece> on_their_way_;
  BlockPool::Block host_;
  BlockPool::Block device_;
  BlockPool::Block made_;
  std::shared_ptr<const Fence> fence_;
};

// Purpose: one such Plan: out, through the backend below, and in again. The Work below is made at once, in
// the order of Plans, and stepped when what it reads has come.
class StagedWork final : public Work {
 public:
  StagedWork(const Plan& plan, std::span<Entry> entries, Backend& below, DeviceSides& sides, Rank rank)
      : plan_(plan), entries_(entries) {
    arrange(sides);
    // Then they lie as the Plan says.
    const bool all_of_one_device = staged_.size() == 1 && std::ranges::none_of(entries_, &Entry::joined);
    flows_ = all_of_one_device && below.flows(plan_);
    reads_ = plan_.operation != Operation::broadcast || plan_.root == rank;
    try {
      for (const auto& each : staged_) each->take_memory();
    } catch (const WorkFailure& failure) {
      no_memory_ = failure;
    }
    start_below(below);
  }
  StagedWork(const StagedWork&) = delete;
  StagedWork& operator=(const StagedWork&) = delete;
  ~StagedWork() override { work_.reset(); }  // before what it works on

  Step step() override {
    if (steps_below_) return pass_on();
    if (!begun_) {
      begun_ = true;
      if (no_memory_) throw WorkFailure(*no_memory_);
      for (const auto& each : staged_) each->copy_out(reads_, flows_ ? kPiece : SIZE_MAX / 2);
      return Step::again;
    }
    steps_below_ = flows_ || std::ranges::all_of(staged_, [](auto& each) { return each->all_arrived(); });
    return steps_below_ ? pass_on() : Step::waiting;
  }

  void abandon() override {
    steps_below_ = true;
    work_->abandon();
  }

  std::string_view phase() const override {
    return steps_below_ ? work_->phase() : "copying from the device to the host";
  }
  // The last copy to the device may be under way.
  PlanRoute route() const override {
    PlanRoute route = work_->route();
    route.ends_on_device = true;
    return route;
  }

 private:
  void arrange(DeviceSides& sides) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].joined) continue;  // its memory is the host's
      const Submission& submission = entries_[i].submission();
      DeviceSide& side = sides.at(submission.device);
      auto found = std::ranges::find_if(staged_, [&](auto& each) { return &each->side() == &side; });
      if (found == staged_.end())
        found = staged_.insert(found, std::make_unique<StagedTensors>(side, entries_));
      (*found)->add(i, submission.input.bytes());
    }
  }

  void start_below(Backend& below) {
    for (Entry& entry : entries_) {
      if (entry.joined) {
        below_entries_.push_back(entry);
        continue;
      }
      Submission submission;
      submission.request = entry.request();
      submission.request.others.clear();
      submission.splits = entry.submission().splits;
      submission.input = {nullptr, plan_.dtype, entry.submission().input.shape};
      submission.output = {nullptr, plan_.dtype, entry.submission().output.shape, {}};
      below_entries_.emplace_back(entry.shared_request,
                                  std::make_shared<HandleState>(nullptr, std::move(submission)));
    }
    for (const auto& each : staged_) {
      each->for_each([&](std::size_t i, std::byte* memory) {
        Submission& submission = below_entries_[i].submission();
        submission.input.data = memory;
        if (traits(plan_.operation).makes_output) {
          submission.allocate = [this, &each](DataType dtype, const Shape& shape) {
            return make_output(*each, dtype, shape);
          };
        } else {
          submission.output.data = memory;
        }
      });
    }
    if (flows_) below_entries_.front().flow = staged_.front().get();
    work_ = below.start(plan_, below_entries_);
  }

  // While all ranks can still hear of it that one cannot.
  TensorView make_output(StagedTensors& staged, DataType dtype, const Shape& shape) {
    TensorView view{nullptr, dtype, shape, {}};
    try {
      entries_.front().handle->received_splits = below_entries_.front().handle->received_splits;
      output_ = allocate_output(entries_.front(), shape);
      view.data = staged.make(view.bytes());
    } catch (const WorkFailure& failure) {
      failure_ = failure;
      throw std::runtime_error(failure.what);
    }
    return view;
  }

  Step pass_on() {
    Step step = Step::waiting;
    try {
      step = work_->step();
    } catch (const WorkFailure&) {
      if (failure_) throw WorkFailure(*failure_);  // without the words of the one below
      throw;
    }
    if (step == Step::done) finish();
    return step;
  }

  void finish() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].joined) continue;
      entries_[i].handle->received_splits = below_entries_[i].handle->received_splits;
      entries_[i].handle->numbers.square_sum = below_entries_[i].handle->numbers.square_sum;
    }
    for (const auto& each : staged_) {
      if (traits(plan_.operation).makes_output) {
        each->copy_made(output_);
      } else {
        each->copy_in();
      }
    }
  }

  const Plan& plan_;
  std::span<Entry> entries_;
  bool begun_ = false;
  bool steps_below_ = false;  // what the Work below reads has come, or it is to read nothing
  bool flows_ = false;        // the Work below begins before all is there
  bool reads_ = true;         // this rank's tensors
  std::optional<WorkFailure> no_memory_;
  std::vector<std::unique_ptr<StagedTensors>> staged_;  // one for each device
  std::vector<Entry> below_entries_;
  TensorView output_;  // of an operation that finds its own size
  std::optional<WorkFailure> failure_;
  std::unique_ptr<Work> work_;
};

}  // namespace

std::unique_ptr<Work> StagedBackend::start(const Plan& plan, std::span<Entry> entries) {
  return std::make_unique<StagedWork>(plan, entries, below_, *sides_, rank_);
}

}  // namespace rueda
