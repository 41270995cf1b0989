// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/hierarchy_allreduce.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "ops/algorithms/contiguous_allreduce.h"
#include "ops/algorithms/sparse_sum.h"
#include "ops/arithmetic/squared_norm.h"
#include "ops/buffers/contiguous_tensors.h"
#include "ops/buffers/fused_range.h"
#include "ops/shm/in_place_tensors.h"
#include "ops/shm/reduce_to_all.h"

namespace rueda::hierarchy_allreduce {
namespace {

// Of the fused buffer; a tensor alone is as long as it is.
std::size_t bytes_of(const Plan& plan) {
  if (plan.tensors.size() > 1) return static_cast<std::size_t>(plan.buffer_bytes);
  return static_cast<std::size_t>(plan.tensors.front().elements()) * size_of(plan.dtype);
}

// Purpose: what this rank's slices of a top-k tensor keep back, one behind the other, in the order in which
// they depart. Part of a HierarchyAllreduce.
class SliceFeedback {
 public:
  explicit SliceFeedback(ErrorFeedback::Lease lease) : lease_(std::move(lease)) {}

  // False while the name's last Work has the kept values. May throw WorkFailure.
  bool begin(const ErrorFeedback::Cut& cut, const Memory& memory) {
    begun_ = lease_.begin(cut, memory);
    return begun_;
  }
  bool begun() const { return begun_; }
  // Gives the job of the next slice its part; without `data` it needs none.
  void give_part(SparseSum::Job& job, bool data) {
    if (data) {
      if (lease_.before() != nullptr) job.before = lease_.before() + departed_;
      job.after = lease_.after() + departed_;
    }
    departed_ += job.elements;
  }
  void commit() { lease_.commit(); }

 private:
  ErrorFeedback::Lease lease_;
  bool begun_ = false;
  std::int64_t departed_ = 0;  // elements of slices
};

class HierarchyAllreduce final : public HierarchyWork {
 public:
  HierarchyAllreduce(const Plan& plan, std::span<Entry> entries, const HostContext& context)
      : HierarchyWork(plan, context, slices_of(plan, *context.groups, context.most_slices)),
        plan_(plan),
        between_hosts_(ScaledReduction::of(plan, plan.members->count())),
        total_(bytes_of(plan)),
        chunk_(chunk_bytes(plan.chunk_bytes)),
        value_size_(size_of(plan.dtype)),
        sum_size_(between_hosts_.accumulation().sum_size),
        squares_(SquaredNorm::on_the_way(plan, entries)),
        flow_(entries.front().flow),
        in_place_(plan, entries, context.area.peers, lists()),
        tensors_(entries, context.memory, lists()) {
    if (plan.compression == Compression::topk)
      feedback_.emplace(context.feedback.lease(key_of(*plan.tensors.front().request)));
    inside_ = between_hosts_;
    inside_.postscale = {};
    between_hosts_.prescale = {};
    between_hosts_.of_sums = true;
    set_chunks((total_ + chunk_ - 1) / chunk_);
    for (const Entry& entry : entries) {
      // Copied there first the data would be late for the wire: it is better packed chunk by chunk.
      const ConstTensorView& input = entry.submission().input;
      if (!input.contiguous() || input.data != entry.submission().output.data) in_place_.rule_out();
    }
  }

 private:
  bool prepare() override {
    if (feedback_ && !feedback_->begun() && !begin_feedback()) return true;
    if (sum_size_ != value_size_ && scratch_.size() == 0) {
      scratch_ = memory().get("partial sums", std::min(chunks(), buffer_count()) * sums_of_chunk());
      std::memset(scratch_.data(), 0, scratch_.size());  // what travels is always initialised
    }
    return tensors_.prepare();
  }

  bool ready(std::size_t chunk) override {
    return flow_ == nullptr || flow_->arrived(chunk * chunk_ + bytes_in(chunk));
  }

  // Packs the slices that other members combine; this rank's own slices are read from its tensors.
  void pack(std::size_t chunk, std::byte* buffer) override {
    for_others(chunk, [&](std::size_t slice) {
      const Run run = run_of(chunk, slice);
      for (const auto& [entry, from, to, bytes] :
           FusedRange(plan_, chunk * chunk_ + run.begin, chunk * chunk_ + run.end))
        kernels::copy_bytes(buffer + run.begin + to, tensors_.input(entry) + from, bytes);
    });
  }

  void collect(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for_owned(chunk, [&](std::size_t slice) {
      const Run run = run_of(chunk, slice);
      std::byte* sums = sums_at(chunk, run);
      for (const auto& [entry, from, to, bytes] :
           FusedRange(plan_, chunk * chunk_ + run.begin, chunk * chunk_ + run.end)) {
        sources_.clear();
        for (const std::byte* buffer : buffers) sources_.push_back(buffer + run.begin + to);
        sources_[index()] = tensors_.input(entry) + from;
        sum_up(inside_, sources_, sums + to / value_size_ * sum_size_, bytes / value_size_);
      }
    });
  }

  std::unique_ptr<Algorithm> journey_of(std::size_t chunk, std::size_t slice, const Route& route) override {
    const Run run = run_of(chunk, slice);
    const bool data = !route.channel->abandoned();
    if (feedback_) return sparse_sum(route, chunk, run, data);
    return contiguous_allreduce(route, between_hosts_, data ? sums_at(chunk, run) : nullptr,
                                data ? values_at(chunk, run) : nullptr,
                                static_cast<std::int64_t>(run.size() / value_size_), std::nullopt);
  }

  void spread(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for_owned(chunk, [&](std::size_t slice) {
      const Run run = run_of(chunk, slice);
      copy_to_others(buffers, run);
      if (squares_) count_squares(chunk * chunk_ + run.begin, buffers[index()] + run.begin, run.size());
    });
  }

  std::size_t offer_bytes() const override { return in_place_.offer_bytes(); }
  void offer(std::byte* room) const override { in_place_.offer(room); }
  void find_in_place(std::span<std::byte* const> offers) override { in_place_.find(offers); }

  void collect_in_place(std::size_t chunk) override {
    for_owned(chunk, [&](std::size_t slice) {
      const Run run = run_of(chunk, slice);
      std::byte* sums = sums_at(chunk, run);
      for (const auto& [entry, from, to, bytes] :
           FusedRange(plan_, chunk * chunk_ + run.begin, chunk * chunk_ + run.end)) {
        sources_.clear();
        for (std::size_t member = 0; member < members(); ++member)
          sources_.push_back(in_place_.of(entry, member) + from);
        std::byte* destination = sums + to / value_size_ * sum_size_;
        if (destination != sources_[index()]) {
          sum_up(inside_, sources_, destination, bytes / value_size_);
        } else {
          reduce_everywhere(inside_, sources_, {&destination, 1}, bytes / value_size_);
        }
      }
    });
  }

  void spread_in_place(std::size_t chunk) override {
    for_owned(chunk, [&](std::size_t slice) {
      const Run run = run_of(chunk, slice);
      const std::byte* values = values_at(chunk, run);
      for (const auto& [entry, to, from, bytes] :
           FusedRange(plan_, chunk * chunk_ + run.begin, chunk * chunk_ + run.end)) {
        for (std::size_t member = 0; member < members(); ++member) {
          std::byte* tensor = in_place_.of(entry, member) + to;
          if (tensor != values + from) kernels::copy_bytes(tensor, values + from, bytes);
        }
      }
      if (squares_) count_squares(chunk * chunk_ + run.begin, values, run.size());
    });
  }

  // The owners of a slice count each an even part of it.
  void count_squares(std::size_t begin, const std::byte* values, std::size_t bytes) const {
    const Run part = even_part(bytes, host(), groups().hosts.size());
    squares_->add_fused(static_cast<std::int64_t>((begin + part.begin) / value_size_), values + part.begin,
                        static_cast<std::int64_t>(part.size() / value_size_));
  }

  void unpack(std::size_t chunk, const std::byte* buffer) override {
    const std::size_t start = chunk * chunk_;
    for (const auto& [entry, to, from, bytes] : FusedRange(plan_, start, start + bytes_in(chunk)))
      kernels::copy_out(tensors_.output(entry) + to, buffer + from, bytes);
    if (flow_ != nullptr) flow_->finished(start + bytes_in(chunk));
  }

  bool copy_back() override {
    if (tensors_.copy_back()) return true;
    if (feedback_) feedback_->commit();
    return false;
  }

  std::string_view journey() const override { return "reducing between hosts"; }
  PlanRoute journeys() const override {
    return feedback_ ? SparseSum::route() : route_of_allreduce(between_hosts_);
  }

  bool begin_feedback() {
    std::size_t own = 0;  // bytes
    for (std::size_t chunk = 0; chunk < chunks(); ++chunk)
      for_owned(chunk, [&](std::size_t slice) { own += run_of(chunk, slice).size(); });
    const auto elements = [this](std::size_t bytes) {
      return static_cast<std::int64_t>(bytes / value_size_);
    };
    return feedback_->begin({elements(total_), elements(own), static_cast<std::int64_t>(chunk_)}, memory());
  }

  std::unique_ptr<Algorithm> sparse_sum(const Route& route, std::size_t chunk, Run run, bool data) {
    SparseSum::Job job{.route = route,
                       .tensor = plan_.tensors.front().name(),
                       .share = plan_.compression_share,
                       .elements = static_cast<std::int64_t>(run.size() / value_size_),
                       .prescale = between_hosts_.prescale,
                       .postscale = between_hosts_.postscale};
    if (data) {
      job.input = reinterpret_cast<const float*>(sums_at(chunk, run));
      job.output = reinterpret_cast<float*>(values_at(chunk, run));
    }
    feedback_->give_part(job, data);
    return std::make_unique<SparseSum>(std::move(job));
  }

  std::size_t bytes_in(std::size_t chunk) const { return std::min(chunk_, total_ - chunk * chunk_); }
  Run run_of(std::size_t chunk, std::size_t slice) const {
    return even_part(bytes_in(chunk), slice, slices().count());
  }
  // Bytes of the partial sums of a chunk, if they do not lie in its buffer.
  std::size_t sums_of_chunk() const { return chunk_ / value_size_ * sum_size_; }
  // The memory for a slice's outcome: this rank's tensor if it is open to all and holds the whole slice.
  std::byte* values_at(std::size_t chunk, Run run) {
    std::byte* values = own_buffer(chunk) + run.begin;
    if (!in_place_.found()) return values;
    for (const FusedPiece& piece : FusedRange(plan_, chunk * chunk_ + run.begin, chunk * chunk_ + run.end))
      if (piece.bytes == run.size()) values = in_place_.of(piece.tensor, index()) + piece.in_tensor;
    return values;
  }
  std::byte* sums_at(std::size_t chunk, Run run) {
    if (sum_size_ == value_size_) return values_at(chunk, run);
    return scratch_.data() + chunk % buffer_count() * sums_of_chunk() + run.begin / value_size_ * sum_size_;
  }

  const Plan& plan_;
  ScaledReduction inside_;
  ScaledReduction between_hosts_;
  const std::size_t total_;  // bytes
  const std::size_t chunk_;  // bytes, but of the last one
  const std::size_t value_size_;
  const std::size_t sum_size_;
  const std::optional<SquaredNorm> squares_;
  StreamingProgress* const flow_;
  InPlaceTensors in_place_;
  ContiguousTensors tensors_;
  std::optional<SliceFeedback> feedback_;  // of top-k
  std::vector<const std::byte*> sources_;
};

}  // namespace

bool fits(const Plan& plan) {
  if (plan.operation != Operation::allreduce || plan.reduce_op == ReduceOp::adasum) return false;
  if (plan.reduction_order == ReductionOrder::fixed) return false;
  constexpr auto kMost = std::int64_t{1} << 56;
  return plan.tensors.front().elements() <= kMost &&
         bytes_of(plan) / StagedWork::chunk_bytes(plan.chunk_bytes) < StagedWork::kMostChunks;
}

Slices slices_of(const Plan& plan, const HostGroups& groups, std::size_t most) {
  // A share of a slice is a short message; owners take turns by chunks.
  if (plan.compression == Compression::topk) most = 1;
  return {groups, StagedWork::chunk_bytes(plan.chunk_bytes), bytes_of(plan), most};
}

std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const HostContext& context) {
  return std::make_unique<HierarchyAllreduce>(plan, entries, context);
}

}  // namespace rueda::hierarchy_allreduce
