// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/staged_allreduce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/shm/reduce_everywhere.h"
#include "ops/staging.h"

namespace rueda::staged_allreduce {
namespace {

// Of the fused buffer; a tensor alone is as long as it is.
std::int64_t bytes_of(const Plan& plan) {
  if (plan.tensors.size() > 1) return plan.buffer_bytes;
  return plan.tensors.front().elements() * static_cast<std::int64_t>(size_of(plan.dtype));
}

class StagedAllreduce final : public StagedWork {
 public:
  StagedAllreduce(const Plan& plan, std::span<Entry> entries, AreaPlace place, const Memory& memory)
      : StagedWork(plan.number, std::move(place)),
        plan_(plan),
        reduction_(ScaledReduction::of(plan, static_cast<Rank>(members()))),
        total_(static_cast<std::size_t>(bytes_of(plan))),
        chunk_(chunk_bytes(plan.chunk_bytes)) {
    set_chunks((total_ + chunk_ - 1) / chunk_);
    for (Entry& entry : entries) {
      inputs_.emplace_back(entry.submission.input, memory);
      outputs_.emplace_back(entry.submission.output, memory);
    }
  }

 private:
  bool prepare() override {
    for (; prepared_ < inputs_.size(); ++prepared_) {
      outputs_[prepared_].prepare();
      if (inputs_[prepared_].advance()) return true;
    }
    return false;
  }

  void pack(std::size_t chunk, std::byte* buffer) override {
    for_each_piece(chunk, [&](std::size_t entry, std::size_t from, std::size_t to, std::size_t bytes) {
      kernels::copy_bytes(buffer + to, inputs_[entry].data() + from, bytes);
    });
  }

  void take(std::size_t chunk, std::span<std::byte* const> buffers) override {
    const std::size_t bytes = bytes_in(chunk), lines = (bytes + kLine - 1) / kLine;
    const std::size_t share = (lines + members() - 1) / members() * kLine;
    const std::size_t begin = std::min(place() * share, bytes), end = std::min(begin + share, bytes);
    slices_.clear();
    for (std::byte* buffer : buffers) slices_.push_back(buffer + begin);
    reduce_everywhere(reduction_, slices_, (end - begin) / size_of(plan_.dtype));
  }

  void unpack(std::size_t chunk, const std::byte* buffer) override {
    for_each_piece(chunk, [&](std::size_t entry, std::size_t to, std::size_t from, std::size_t bytes) {
      copy_out(outputs_[entry].data() + to, buffer + from, bytes);
    });
  }

  bool put_in_places() override {
    for (; placed_ < outputs_.size(); ++placed_) {
      if (outputs_[placed_].advance()) return true;
    }
    return false;
  }

  std::size_t bytes_in(std::size_t chunk) const { return std::min(chunk_, total_ - chunk * chunk_); }

  // Calls visit(entry, offset in its tensor, offset in the chunk, bytes) for all that lies in a chunk.
  template <class Visit>
  void for_each_piece(std::size_t chunk, Visit visit) const {
    const std::size_t begin = chunk * chunk_, end = begin + bytes_in(chunk);
    auto place = [](const PlanTensor& tensor) { return static_cast<std::size_t>(tensor.offset); };
    const bool alone = plan_.tensors.size() == 1;
    const auto after =
        alone ? plan_.tensors.end() : std::ranges::upper_bound(plan_.tensors, begin, {}, place);
    for (auto tensor = after == plan_.tensors.begin() ? after : std::prev(after);
         tensor != plan_.tensors.end(); ++tensor) {
      const std::size_t offset = alone ? 0 : place(*tensor);
      if (offset >= end) return;
      const auto bytes = static_cast<std::size_t>(tensor->elements()) * size_of(plan_.dtype);
      const std::size_t first = std::max(offset, begin), last = std::min(offset + bytes, end);
      if (first < last)
        visit(static_cast<std::size_t>(tensor - plan_.tensors.begin()), first - offset, first - begin,
              last - first);
    }
  }

  const Plan& plan_;
  const ScaledReduction reduction_;
  const std::size_t total_;  // bytes
  const std::size_t chunk_;  // bytes, but of the last one
  std::vector<ContiguousInput> inputs_;
  std::vector<ContiguousOutput> outputs_;
  std::vector<std::byte*> slices_;
  std::size_t prepared_ = 0;  // entries
  std::size_t placed_ = 0;
};

}  // namespace

bool fits(const Plan& plan) {
  constexpr auto kMost = std::int64_t{1} << 56;
  if (plan.operation != Operation::allreduce || plan.reduce_op == ReduceOp::adasum) return false;
  if (plan.tensors.front().elements() > kMost) return false;
  const auto bytes = static_cast<std::uint64_t>(bytes_of(plan));
  return bytes / StagedWork::chunk_bytes(plan.chunk_bytes) < StagedWork::kMostChunks;
}

std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, AreaPlace place,
                            const Memory& memory) {
  return std::make_unique<StagedAllreduce>(plan, entries, std::move(place), memory);
}

}  // namespace rueda::staged_allreduce
