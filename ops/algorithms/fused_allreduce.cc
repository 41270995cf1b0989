// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/fused_allreduce.h"

#include <cstring>
#include <optional>

#include "ops/algorithms/contiguous_allreduce.h"
#include "ops/kernels/pack.h"

namespace rueda {
namespace {

// Purpose: some small tensors, or a piece of a large one, are packed or unpacked a step, so that control
// messages are answered in between.
class FusedAllreduce final : public Algorithm {
 public:
  FusedAllreduce(const Route& route, const Plan& plan, std::span<Entry> entries, FusionBuffer& buffers)
      : route_(route), plan_(plan), entries_(entries), buffers_(buffers) {}

  Step step() override {
    if (packed_ < entries_.size() && !abandoned()) {
      if (!buffer_) buffer_.emplace(buffers_.acquire(plan_.buffer_bytes));
      pack_some();
      return Step::again;
    }
    if (!reducing_) start_reducing();
    if (!reduced_) {
      const Step step = reducing_->step();
      if (step != Step::done) return step;
      reduced_ = true;
      return Step::again;  // so that unpacking is seen as a phase
    }
    if (abandoned()) return Step::done;
    unpack_some();
    return unpacked_ < entries_.size() ? Step::again : Step::done;
  }

  std::string_view phase() const override {
    if (packed_ < entries_.size() && !abandoned()) return "packing tensors";
    if (reduced_) return "unpacking tensors";
    return reducing_ ? reducing_->phase() : "reducing the fused tensors";
  }

 private:
  bool abandoned() const { return route_.channel->abandoned(); }
  std::byte* slot(std::size_t i) const { return buffer_->data() + plan_.tensors[i].offset; }

  void pack_some() {
    for (std::int64_t moved = 0; packed_ < entries_.size() && moved < kernels::kPieceBytes;) {
      if (!copying_) copying_ = kernels::Packing::pack(slot(packed_), entries_[packed_].submission().input);
      moved += copying_->advance();
      if (!copying_->done()) continue;
      copying_.reset();
      clear_gap_after(packed_++);
    }
  }

  void unpack_some() {
    for (std::int64_t moved = 0; unpacked_ < entries_.size() && moved < kernels::kPieceBytes;) {
      if (!copying_)
        copying_ = kernels::Packing::unpack(entries_[unpacked_].submission().output, slot(unpacked_));
      moved += copying_->advance();
      if (!copying_->done()) continue;
      copying_.reset();
      ++unpacked_;
    }
  }

  // Clears the gap after a tensor, because data that travels is always initialised.
  void clear_gap_after(std::size_t i) {
    const std::int64_t end = i + 1 < entries_.size() ? plan_.tensors[i + 1].offset : plan_.buffer_bytes;
    std::byte* gap = slot(i) + entries_[i].submission().input.bytes();
    std::memset(gap, 0, static_cast<std::size_t>(buffer_->data() + end - gap));
  }

  // A tensor alone is as long as it is: on other ranks it may be contiguous and need no buffer.
  void start_reducing() {
    const bool alone = plan_.tensors.size() == 1;
    const auto elements = alone ? plan_.tensors.front().elements()
                                : plan_.buffer_bytes / static_cast<std::int64_t>(size_of(plan_.dtype));
    std::byte* values = buffer_ ? buffer_->data() : nullptr;
    reducing_ = contiguous_allreduce(route_, ScaledReduction::of(plan_, route_.group.size), values, values,
                                     elements, SquaredNorm::on_the_way(plan_, entries_));
  }

  Route route_;
  const Plan& plan_;
  std::span<Entry> entries_;
  FusionBuffer& buffers_;
  std::optional<FusionBuffer::Lease> buffer_;  // from the first step on
  std::optional<kernels::Packing> copying_;    // of the tensor that is packed or unpacked now
  std::size_t packed_ = 0;
  std::size_t unpacked_ = 0;
  std::unique_ptr<Algorithm> reducing_;
  bool reduced_ = false;
};

}  // namespace

std::unique_ptr<Algorithm> fused_allreduce(const Route& route, const Plan& plan, std::span<Entry> entries,
                                           FusionBuffer& buffers) {
  return std::make_unique<FusedAllreduce>(route, plan, entries, buffers);
}

}  // namespace rueda
