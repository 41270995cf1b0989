// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/staged_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/base/host_buffer.h"

namespace rueda {
namespace {

bool output_is_given(Operation operation) {
  return operation == Operation::allreduce || operation == Operation::broadcast;
}

// Purpose: tensors of one device on their way through pinned memory, several of them as one run of bytes that
// kernels pack and take apart. What it has taken it gives back behind all that the device has been given.
class StagedTensors {
 public:
  explicit StagedTensors(DeviceSide& side) : side_(&side) {}
  StagedTensors(StagedTensors&& other) noexcept = default;
  StagedTensors& operator=(StagedTensors&& other) noexcept = default;
  ~StagedTensors() {
    for (BlockPool::Block* block : {&host_, &made_}) {
      if (block->memory) side_->pinned.give_back(std::move(*block), fence_);
    }
    if (device_.memory) side_->memory.give_back(std::move(device_), fence_);
  }

  DeviceSide& side() { return *side_; }
  const std::shared_ptr<const Fence>& fence() const { return fence_; }
  void add(std::size_t entry, std::size_t bytes) {
    places_.push_back({entry, bytes_, bytes});
    bytes_ += HostBuffer::whole_lines(bytes);
  }

  // Throws WorkFailure. Once it is ready, `entries` go out, unless only their memory is needed.
  void copy_out(std::span<Entry> entries, bool data) {
    host_ = side_->pinned.take("its tensors in pinned memory", bytes_);
    if (places_.size() > 1) device_ = side_->memory.take("its tensors packed on the device", bytes_);
    for (const Place& place : places_)
      entries[place.entry].submission().ready->hold_back(side_->queue->stream());
    if (data) {
      BatchCopy pack{DataType::uint8, DataType::uint8, 1.0, {}};
      for (const Place& place : places_) {
        const void* from = entries[place.entry].submission().input.data;
        if (place.bytes == 0) continue;
        if (device_.memory) {
          pack.pieces.push_back(
              {from, device_.data() + place.offset, static_cast<std::int64_t>(place.bytes)});
        } else {
          side_->queue->copy(host_.data(), from, place.bytes);
        }
      }
      if (!pack.pieces.empty()) {
        side_->queue->copy(pack);
        side_->queue->copy(host_.data(), device_.data(), bytes_);
      }
    }
    mark(entries);
  }

  // The same way back.
  void copy_in(std::span<Entry> entries) {
    BatchCopy unpack{DataType::uint8, DataType::uint8, 1.0, {}};
    if (device_.memory && bytes_ > 0) side_->queue->copy(device_.data(), host_.data(), bytes_);
    for (const Place& place : places_) {
      void* to = entries[place.entry].submission().output.data;
      if (place.bytes == 0) continue;
      if (device_.memory) {
        unpack.pieces.push_back({device_.data() + place.offset, to, static_cast<std::int64_t>(place.bytes)});
      } else {
        side_->queue->copy(to, host_.data(), place.bytes);
      }
    }
    if (!unpack.pieces.empty()) side_->queue->copy(unpack);
    mark(entries);
  }

  // Of an operation that finds its own size: pinned memory for it, and the way from there to `output`.
  std::byte* make(std::size_t bytes) {
    made_ = side_->pinned.take("its output in pinned memory", bytes);
    return made_.data();
  }
  void copy_made(std::span<Entry> entries, const TensorView& output) {
    const Submission& submission = entries[places_.front().entry].submission();
    // The program may have used that memory for something else until now.
    side_->device.record(submission.stream)->hold_back(side_->queue->stream());
    if (output.bytes() > 0) side_->queue->copy(output.data, made_.data(), output.bytes());
    mark(entries);
  }

  // Calls visit(entry's number, its place in pinned memory).
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Place& place : places_)
      visit(place.entry, host_.memory ? host_.data() + place.offset : nullptr);
  }

 private:
  struct Place {
    std::size_t entry = 0;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };

  // The device has to do with them until then.
  void mark(std::span<Entry> entries) {
    fence_ = side_->queue->record();
    for (const Place& place : places_) entries[place.entry].handle->fence = fence_;
  }

  DeviceSide* side_;
  std::vector<Place> places_;
  std::size_t bytes_ = 0;
  BlockPool::Block host_;
  BlockPool::Block device_;
  BlockPool::Block made_;
  std::shared_ptr<const Fence> fence_;
};

// Purpose: one such Plan: out, through the backend below, and in again.
class StagedWork final : public Work {
 public:
  StagedWork(const Plan& plan, std::span<Entry> entries, Backend& below, DeviceSides& sides, Rank rank)
      : plan_(plan), entries_(entries), below_(below), sides_(sides), rank_(rank) {
    plan_.device = DeviceKind::host;
  }
  StagedWork(const StagedWork&) = delete;
  StagedWork& operator=(const StagedWork&) = delete;
  ~StagedWork() override { work_.reset(); }  // before what it works on

  Step step() override {
    if (work_) return pass_on();
    if (abandoned_) {
      start_below();
      work_->abandon();
      return Step::again;
    }
    if (!begun_) {
      begin();
      return Step::again;
    }
    if (!std::ranges::all_of(staged_, [](const StagedTensors& each) { return each.fence()->passed(); }))
      return Step::waiting;
    start_below();
    return Step::again;
  }

  void abandon() override {
    abandoned_ = true;
    if (work_) work_->abandon();
  }

  std::string_view phase() const override {
    return work_ ? work_->phase() : "copying from the device to the host";
  }

 private:
  void begin() {
    begun_ = true;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].ghost) continue;  // its memory is the host's
      const Submission& submission = entries_[i].submission();
      DeviceSide& side = sides_.at(submission.device);
      auto same = [&](StagedTensors& each) { return &each.side() == &side; };
      auto found = std::ranges::find_if(staged_, same);
      if (found == staged_.end()) found = staged_.emplace(staged_.end(), side);
      found->add(i, submission.input.bytes());
    }
    const bool reads = plan_.operation != Operation::broadcast || plan_.root == rank_;
    for (StagedTensors& each : staged_) each.copy_out(entries_, reads);
  }

  void start_below() {
    for (Entry& entry : entries_) {
      if (entry.ghost) {
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
    for (StagedTensors& each : staged_) {
      each.for_each([&](std::size_t i, std::byte* place) {
        Submission& submission = below_entries_[i].submission();
        submission.input.data = place;
        if (output_is_given(plan_.operation)) {
          submission.output.data = place;
        } else {
          submission.allocate = [&each](DataType dtype, const Shape& shape) {
            return made(each, dtype, shape);
          };
        }
      });
    }
    work_ = below_.start(plan_, below_entries_);
  }

  static TensorView made(StagedTensors& staged, DataType dtype, const Shape& shape) {
    TensorView view{nullptr, dtype, shape, {}};
    try {
      view.data = staged.make(view.bytes());
    } catch (const WorkFailure& failure) {
      throw std::runtime_error(failure.what);
    }
    return view;
  }

  Step pass_on() {
    const Step step = work_->step();
    if (step == Step::done) finish();
    return step;
  }

  void finish() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].ghost) continue;
      entries_[i].handle->received_splits = below_entries_[i].handle->received_splits;
      entries_[i].handle->square_sum = below_entries_[i].handle->square_sum;
    }
    for (StagedTensors& each : staged_) {
      if (output_is_given(plan_.operation)) {
        each.copy_in(entries_);
      } else if (traits(plan_.operation).moves_data && plan_.operation != Operation::barrier) {
        const Shape shape = below_entries_.front().handle->output.shape;
        each.copy_made(entries_, allocate_output(entries_.front(), shape));
      }
    }
  }

  Plan plan_;  // the same on the host
  std::span<Entry> entries_;
  Backend& below_;
  DeviceSides& sides_;
  Rank rank_;
  bool begun_ = false;
  bool abandoned_ = false;
  std::vector<StagedTensors> staged_;  // one for each device
  std::vector<Entry> below_entries_;
  std::unique_ptr<Work> work_;
};

}  // namespace

std::unique_ptr<Work> StagedBackend::start(const Plan& plan, std::span<Entry> entries) {
  return std::make_unique<StagedWork>(plan, entries, below_, *sides_, rank_);
}

}  // namespace rueda
