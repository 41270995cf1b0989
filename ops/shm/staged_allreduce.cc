// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/staged_allreduce.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "ops/arithmetic/squared_norm.h"
#include "ops/buffers/contiguous_tensors.h"
#include "ops/buffers/fused_range.h"
#include "ops/shm/in_place_tensors.h"
#include "ops/shm/reduce_to_all.h"

namespace rueda::staged_allreduce {
namespace {

// Of the fused buffer; a tensor alone is as long as it is.
std::int64_t bytes_of(const Plan& plan) {
  if (plan.tensors.size() > 1) return plan.buffer_bytes;
  return plan.tensors.front().elements() * static_cast<std::int64_t>(size_of(plan.dtype));
}

class StagedAllreduce final : public StagedWork {
 public:
  StagedAllreduce(const Plan& plan, std::span<Entry> entries, const WorkContext& context,
                  const Memory& memory)
      : StagedWork(plan.number, context),
        plan_(plan),
        reduction_(ScaledReduction::of(plan, static_cast<Rank>(members()))),
        total_(static_cast<std::size_t>(bytes_of(plan))),
        chunk_(chunk_bytes(plan.chunk_bytes)),
        squares_(SquaredNorm::on_the_way(plan, entries)),
        flow_(entries.front().flow),
        in_place_(plan, entries, context.peers, lists()),
        tensors_(entries, memory, lists()),
        sources_(lists(), members()),
        slices_(lists(), members()) {
    set_chunks((total_ + chunk_ - 1) / chunk_);
  }

 private:
  bool prepare() override {
    return tensors_.prepare([this](std::size_t tensor) { return copy_to_window(tensor); });
  }

  // A piece of an input that is to be reduced in place in its output; false when all is there.
  bool copy_to_window(std::size_t tensor) {
    std::byte* output = tensors_.output(tensor);
    const std::byte* input = tensors_.input(tensor);
    if (!in_place_.possible() || input == output) return false;
    const auto bytes = static_cast<std::size_t>(plan_.tensors[tensor].elements()) * size_of(plan_.dtype);
    const std::size_t part = std::min(chunk_, bytes - copied_);
    kernels::copy_bytes(output + copied_, input + copied_, part);
    copied_ += part;
    if (copied_ < bytes) return true;
    copied_ = 0;
    return false;
  }

  std::size_t offer_bytes() const override { return in_place_.offer_bytes(); }
  void offer(std::byte* room) const override { in_place_.offer(room); }

  Step take_in_place(std::span<std::byte* const> offers) override {
    if (!in_place_.found()) {
      in_place_.find(offers);
      if (stores().streamed() && !in_place_.begin_at_lines()) stores().store_through_cache();
    }
    // From the end on while that is in a cache still. Of large tensors most is in memory, and what others
    // have in theirs is better left to be written back.
    const auto [begin, end] = slice_of(total_);
    const std::size_t left = end - begin - taken_;
    const bool backwards = total_ <= kMostCached && left > 0;
    const std::size_t before = backwards ? (left - 1) / chunk_ * chunk_ : taken_;  // whole lines
    const std::size_t bytes = std::min(chunk_, backwards ? left - before : left), from = begin + before;
    const Stores way{stores().streamed(), index()};
    for (const FusedPiece& piece : FusedRange(plan_, from, from + bytes, most_of_piece())) {
      slices_.clear();
      for (std::size_t member = 0; member < members(); ++member)
        slices_.emplace_back(in_place_.of(piece.tensor, member) + piece.in_tensor);
      sources_.clear();
      for (const std::byte* slice : slices_.all()) sources_.emplace_back(slice);
      reduce_everywhere(reduction_, sources_.all(), slices_.all(), elements_in(piece.bytes), way);
      if (squares_) squares_->add(piece.tensor, slices_[index()], elements_in(piece.bytes));
    }
    taken_ += bytes;
    return taken_ < end - begin ? Step::again : Step::done;
  }

  bool ready(std::size_t chunk) override {
    return flow_ == nullptr || flow_->arrived(start_of(chunk) + bytes_in(chunk));
  }

  void pack(std::size_t chunk, std::byte* buffer) override {
    for_others(chunk, [&](std::size_t entry, std::size_t from, std::size_t to, std::size_t bytes) {
      stores().copy(buffer + to, tensors_.input(entry) + from, bytes);
    });
  }

  // This rank's slice of its own tensors does not pass through its buffer.
  void take(std::size_t chunk, std::span<std::byte* const> buffers) override {
    const auto [begin, end] = slice_of(bytes_in(chunk));
    const std::size_t start = start_of(chunk) + begin;
    const Stores way{stores().streamed(), index()};
    for (const FusedPiece& piece : FusedRange(plan_, start, start + end - begin, most_of_piece())) {
      sources_.clear();
      slices_.clear();
      for (std::byte* buffer : buffers) {
        sources_.emplace_back(buffer + begin + piece.in_range);
        slices_.emplace_back(buffer + begin + piece.in_range);
      }
      sources_[index()] = tensors_.input(piece.tensor) + piece.in_tensor;
      slices_[index()] = tensors_.output(piece.tensor) + piece.in_tensor;
      reduce_everywhere(reduction_, sources_.all(), slices_.all(), elements_in(piece.bytes), way);
      if (squares_) squares_->add(piece.tensor, slices_[index()], elements_in(piece.bytes));
    }
  }

  std::size_t elements_in(std::size_t bytes) const { return bytes / size_of(plan_.dtype); }
  // Measured tensors go by blocks. Sums are then still in the first-level cache when their squares are added
  // up.
  std::size_t most_of_piece() const { return squares_ ? 8192 : std::numeric_limits<std::size_t>::max(); }

  void unpack(std::size_t chunk, const std::byte* buffer) override {
    for_others(chunk, [&](std::size_t entry, std::size_t to, std::size_t from, std::size_t bytes) {
      kernels::copy_out(tensors_.output(entry) + to, buffer + from, bytes);
    });
    if (flow_ != nullptr) flow_->finished(start_of(chunk) + bytes_in(chunk));
  }

  bool copy_back() override { return tensors_.copy_back(); }

  std::size_t bytes_moved() const override { return total_; }

  // Chunks go from the end on: the bytes written last are still in a cache. Device tensors go from the
  // beginning on, on some ranks by a StreamingProgress. All must take the same chunk, so the Plan decides.
  std::size_t start_of(std::size_t chunk) const {
    return (plan_.device == DeviceKind::host ? chunks() - 1 - chunk : chunk) * chunk_;
  }
  std::size_t bytes_in(std::size_t chunk) const { return std::min(chunk_, total_ - start_of(chunk)); }

  // Of so many bytes the part that this rank reduces: whole lines.
  std::pair<std::size_t, std::size_t> slice_of(std::size_t bytes) const {
    const std::size_t lines = (bytes + kLine - 1) / kLine;
    const std::size_t share = (lines + members() - 1) / members() * kLine;
    const std::size_t begin = std::min(index() * share, bytes);
    return {begin, std::min(begin + share, bytes)};
  }

  // Calls visit(entry, offset in its tensor, offset in the chunk, bytes) for all of a chunk that other ranks
  // reduce.
  template <class Visit>
  void for_others(std::size_t chunk, Visit visit) const {
    const std::size_t start = start_of(chunk), bytes = bytes_in(chunk);
    const auto [begin, end] = slice_of(bytes);
    for (const FusedPiece& piece : FusedRange(plan_, start, start + begin))
      visit(piece.tensor, piece.in_tensor, piece.in_range, piece.bytes);
    for (const FusedPiece& piece : FusedRange(plan_, start + end, start + bytes))
      visit(piece.tensor, piece.in_tensor, end + piece.in_range, piece.bytes);
  }

  static constexpr std::size_t kMostCached = std::size_t{32} << 20;

  const Plan& plan_;
  const ScaledReduction reduction_;
  const std::size_t total_;  // bytes
  const std::size_t chunk_;  // bytes, but of the last one; in place, of a step
  const std::optional<SquaredNorm> squares_;
  StreamingProgress* const flow_;
  InPlaceTensors in_place_;
  ContiguousTensors tensors_;
  InlineVector<const std::byte*> sources_;
  InlineVector<std::byte*> slices_;
  std::size_t copied_ = 0;  // bytes of the tensor that is prepared
  std::size_t taken_ = 0;   // bytes of this rank's slice, in place
};

// It is what malloc keeps ready for a thread: up to 1,032 bytes.
static_assert(sizeof(StagedAllreduce) <= 1032);

}  // namespace

bool fits(const Plan& plan) {
  constexpr auto kMost = std::int64_t{1} << 56;
  if (plan.operation != Operation::allreduce || plan.reduce_op == ReduceOp::adasum) return false;
  if (plan.tensors.front().elements() > kMost) return false;
  const auto bytes = static_cast<std::uint64_t>(bytes_of(plan));
  return bytes / StagedWork::chunk_bytes(plan.chunk_bytes) < StagedWork::kMostChunks;
}

std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const WorkContext& context,
                            const Memory& memory) {
  return std::make_unique<StagedAllreduce>(plan, entries, context, memory);
}

}  // namespace rueda::staged_allreduce
