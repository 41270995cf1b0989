// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/passes/ring_pass.h"

#include <algorithm>
#include <array>

namespace rueda {
namespace {

// Of compressed values.
std::optional<DataType> travels_as(const RingPass::Job& job) {
  switch (job.compression) {
    case Compression::fp16: return DataType::float16;
    case Compression::bf16: return DataType::bfloat16;
    case Compression::topk:  // another algorithm
    case Compression::none: break;
  }
  return std::nullopt;
}

const kernels::Accumulation& accumulation_of(const RingPass::Job& job) {
  return kernels::accumulation_of(job.dtype, job.op);
}

}  // namespace

std::size_t RingPass::bytes_of_partial_sum(const Job& job) {
  const std::optional<DataType> narrow = travels_as(job);
  return narrow ? size_of(*narrow) : accumulation_of(job).sum_size;
}

RingPass::RingPass(Job job)
    : job_(std::move(job)),
      schedule_(job_.schedule),
      kernels_(*accumulation_of(job_).values),
      input_kernels_(job_.of_sums ? *accumulation_of(job_).sums : kernels_),
      narrow_(travels_as(job_) ? &kernels::kernels_for(*travels_as(job_)) : nullptr),
      input_size_(
          static_cast<std::int64_t>(job_.of_sums ? accumulation_of(job_).sum_size : size_of(job_.dtype))),
      value_size_(static_cast<std::int64_t>(size_of(job_.dtype))),
      partial_size_(static_cast<std::int64_t>(bytes_of_partial_sum(job_))),
      // A received partial sum stays until it has been passed on, `depth` messages later at most; as many
      // again may be on their way out, and as many are expected.
      received_slots_(std::min(3 * schedule_.depth(), schedule_.messages())),
      loaded_slots_(std::min(2 * schedule_.depth(), schedule_.messages())),
      slot_bytes_(job_.schedule.chunk_elements * partial_size_),
      scratch_bytes_(job_.schedule.reduces ? (received_slots_ + loaded_slots_) * slot_bytes_ : 0),
      previous_(job_.group.rank_at(job_.group.neighbour(-1))),
      next_(job_.group.rank_at(job_.group.neighbour(1))) {}

Work::Step RingPass::step() {
  if (scratch_.size() == 0 && scratch_bytes_ > 0 && !job_.wire->abandoned())
    scratch_ = job_.memory->get("partial sums", static_cast<std::size_t>(scratch_bytes_));
  bool moved = retire_sends();
  moved |= post_receives();
  moved |= take_received();
  moved |= post_sends();
  if (received_ == schedule_.messages() && sent_ == schedule_.messages()) return Step::done;
  return moved ? Step::again : Step::waiting;
}

std::string_view RingPass::phase() const {
  const bool reducing = received_ < schedule_.messages() && schedule_.received(received_).reducing;
  return reducing ? "reducing around the ring" : "gathering around the ring";
}

bool RingPass::post_receives() {
  const std::int64_t before = receives_posted_;
  while (receives_posted_ < schedule_.messages() && receives_posted_ - received_ < 2 * schedule_.depth()) {
    const std::int64_t number = receives_posted_;
    const RingSchedule::Piece piece = schedule_.received(number);
    // The slot's last user must have been passed on, or the elements to be overwritten have left.
    const bool slot = in_a_slot(piece);
    if (slot && sent_ <= number - received_slots_ + schedule_.depth() && number >= received_slots_) break;
    if (sent_ <= schedule_.overwrites(number)) break;
    std::byte* place = slot ? received_slot(number) : output_at(piece.begin);
    const auto bytes = static_cast<std::size_t>(piece.count * (slot ? partial_size_ : value_size_));
    receiving_.push_back(job_.wire->receive(previous_, {place, bytes}));
    ++receives_posted_;
  }
  return receives_posted_ != before;
}

bool RingPass::take_received() {
  bool moved = false;
  while (!receiving_.empty() && receiving_.front().done()) {
    const RingSchedule::Piece piece = schedule_.received(received_);
    if (in_a_slot(piece) && piece.count > 0 && !job_.wire->abandoned()) {
      narrow_ == nullptr ? take(piece) : take_compressed(piece);
      if (job_.squares && piece.complete)
        job_.squares->add_fused(piece.begin, output_at(piece.begin), piece.count);
    }
    receiving_.pop_front();
    ++received_;
    moved = true;
  }
  return moved;
}

void RingPass::take(const RingSchedule::Piece& piece) {
  std::byte* sum = received_slot(received_);
  input_kernels_.combine(job_.op, sum, job_.input + piece.begin * input_size_, piece.count, job_.prescale);
  if (piece.complete) kernels_.store(output_at(piece.begin), sum, piece.count, job_.postscale);
}

// What is passed on stays in the slot, in the narrow type; of what is complete every rank has those values.
void RingPass::take_compressed(const RingSchedule::Piece& piece) {
  constexpr std::int64_t kBlock = 2048;
  alignas(64) std::array<float, kBlock> sum;
  for (std::int64_t done = 0; piece.reducing && done < piece.count; done += kBlock) {
    const auto count = static_cast<std::size_t>(std::min(kBlock, piece.count - done));
    std::byte* received = received_slot(received_) + done * partial_size_;
    narrow_->load(sum.data(), received, count, {});
    input_kernels_.combine(job_.op, sum.data(), job_.input + (piece.begin + done) * input_size_, count,
                           job_.prescale);
    narrow_->store(received, sum.data(), count, piece.complete ? job_.postscale : kernels::Scale{});
  }
  if (!piece.reducing || piece.complete)
    narrow_->load(output_at(piece.begin), received_slot(received_), static_cast<std::size_t>(piece.count),
                  {});
}

bool RingPass::post_sends() {
  const std::int64_t before = sends_posted_;
  while (sends_posted_ < schedule_.messages() && sends_posted_ - sent_ < loaded_slots_ &&
         received_ > schedule_.forwards(sends_posted_)) {
    const RingSchedule::Piece piece = schedule_.sent(sends_posted_);
    sending_.push_back(job_.wire->send(next_, source(sends_posted_, piece)));
    ++sends_posted_;
  }
  return sends_posted_ != before;
}

bool RingPass::retire_sends() {
  bool moved = false;
  while (!sending_.empty() && sending_.front().done()) {
    sending_.pop_front();
    ++sent_;
    moved = true;
  }
  return moved;
}

// The bytes of a message: complete elements, a partial sum that came, or this rank's own elements.
ConstBytes RingPass::source(std::int64_t number, const RingSchedule::Piece& piece) {
  if (narrow_ != nullptr) return compressed_source(number, piece);
  const auto values = static_cast<std::size_t>(piece.count * value_size_);
  if (!piece.reducing) return {output_at(piece.begin), values};
  const auto partial = static_cast<std::size_t>(piece.count * partial_size_);
  if (!piece.first) return {received_slot(schedule_.forwards(number)), partial};
  const std::byte* own = at(job_.input, piece.begin * input_size_);
  if (job_.prescale.identity() && partial_size_ == input_size_) return {own, partial};
  if (!job_.wire->abandoned()) input_kernels_.load(loaded_slot(number), own, piece.count, job_.prescale);
  return {loaded_slot(number), partial};
}

ConstBytes RingPass::compressed_source(std::int64_t number, const RingSchedule::Piece& piece) {
  const auto bytes = static_cast<std::size_t>(piece.count * partial_size_);
  if (!piece.first) return {received_slot(schedule_.forwards(number)), bytes};
  if (!job_.wire->abandoned())
    narrow_->store(loaded_slot(number), job_.input + piece.begin * input_size_, piece.count, job_.prescale);
  return {loaded_slot(number), bytes};
}

}  // namespace rueda
