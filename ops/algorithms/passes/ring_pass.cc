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

RingPass::Format::Format(const Job& job)
    : values(*accumulation_of(job).values),
      input(job.of_sums ? *accumulation_of(job).sums : values),
      narrow(travels_as(job) ? &kernels::kernels_for(*travels_as(job)) : nullptr),
      input_size(static_cast<std::int64_t>(job.of_sums ? accumulation_of(job).sum_size : size_of(job.dtype))),
      value_size(static_cast<std::int64_t>(size_of(job.dtype))),
      partial_size(static_cast<std::int64_t>(bytes_of_partial_sum(job))) {}

// A received partial sum stays until it has been passed on, `depth` messages later at most; as many again may
// be on their way out, and as many are expected.
RingPass::Slots::Slots(const RingSchedule& schedule, const Job& job, const Format& format)
    : received_(std::min(3 * schedule.depth(), schedule.messages())),
      loaded_(std::min(2 * schedule.depth(), schedule.messages())),
      bytes_(job.schedule.chunk_elements * format.partial_size),
      total_bytes_(job.schedule.reduces ? (received_ + loaded_) * bytes_ : 0) {}

void RingPass::Slots::take_memory(const Memory& memory) {
  if (scratch_.size() == 0 && total_bytes_ > 0)
    scratch_ = memory.get("partial sums", static_cast<std::size_t>(total_bytes_));
}

RingPass::RingPass(Job job)
    : job_(std::move(job)),
      schedule_(job_.schedule),
      format_(job_),
      slots_(schedule_, job_, format_),
      received_{.peer = job_.group.rank_at(job_.group.neighbour(-1))},
      sent_{.peer = job_.group.rank_at(job_.group.neighbour(1))} {}

Work::Step RingPass::step() {
  if (!job_.channel->abandoned()) slots_.take_memory(*job_.memory);
  bool moved = retire_sends();
  moved |= post_receives();
  moved |= take_received();
  moved |= post_sends();
  if (received_.done == schedule_.messages() && sent_.done == schedule_.messages()) return Step::done;
  return moved ? Step::again : Step::waiting;
}

std::string_view RingPass::phase() const {
  const bool reducing = received_.done < schedule_.messages() && schedule_.received(received_.done).reducing;
  return reducing ? "reducing around the ring" : "gathering around the ring";
}

bool RingPass::post_receives() {
  const std::int64_t before = received_.posted;
  while (received_.posted < schedule_.messages() &&
         received_.posted - received_.done < 2 * schedule_.depth()) {
    const std::int64_t number = received_.posted;
    const RingSchedule::Piece piece = schedule_.received(number);
    // The slot's last user must have been passed on, or the elements to be overwritten have left.
    const bool slot = in_a_slot(piece);
    if (slot && sent_.done <= number - slots_.received_count() + schedule_.depth() &&
        number >= slots_.received_count())
      break;
    if (sent_.done <= schedule_.overwrites(number)) break;
    std::byte* target = slot ? slots_.received(number) : output_at(piece.begin);
    const auto bytes =
        static_cast<std::size_t>(piece.count * (slot ? format_.partial_size : format_.value_size));
    received_.in_flight.push_back(job_.channel->receive(received_.peer, {target, bytes}));
    ++received_.posted;
  }
  return received_.posted != before;
}

bool RingPass::take_received() {
  bool moved = false;
  while (!received_.in_flight.empty() && received_.in_flight.front().done()) {
    const RingSchedule::Piece piece = schedule_.received(received_.done);
    if (in_a_slot(piece) && piece.count > 0 && !job_.channel->abandoned()) {
      format_.narrow == nullptr ? take(piece) : take_compressed(piece);
      if (job_.squares && piece.complete)
        job_.squares->add_fused(piece.begin, output_at(piece.begin), piece.count);
    }
    received_.in_flight.pop_front();
    ++received_.done;
    moved = true;
  }
  return moved;
}

void RingPass::take(const RingSchedule::Piece& piece) {
  std::byte* sum = slots_.received(received_.done);
  format_.input.combine(job_.op, sum, job_.input + piece.begin * format_.input_size, piece.count,
                        job_.prescale);
  if (piece.complete) format_.values.store(output_at(piece.begin), sum, piece.count, job_.postscale);
}

// Data to pass on stays in the slot, in the narrow type. Every rank gets those values of complete pieces.
void RingPass::take_compressed(const RingSchedule::Piece& piece) {
  constexpr std::int64_t kBlock = 2048;
  alignas(64) std::array<float, kBlock> sum;
  for (std::int64_t done = 0; piece.reducing && done < piece.count; done += kBlock) {
    const auto count = static_cast<std::size_t>(std::min(kBlock, piece.count - done));
    std::byte* received = slots_.received(received_.done) + done * format_.partial_size;
    format_.narrow->load(sum.data(), received, count, {});
    format_.input.combine(job_.op, sum.data(), job_.input + (piece.begin + done) * format_.input_size, count,
                          job_.prescale);
    format_.narrow->store(received, sum.data(), count, piece.complete ? job_.postscale : kernels::Scale{});
  }
  if (!piece.reducing || piece.complete)
    format_.narrow->load(output_at(piece.begin), slots_.received(received_.done),
                         static_cast<std::size_t>(piece.count), {});
}

bool RingPass::post_sends() {
  const std::int64_t before = sent_.posted;
  while (sent_.posted < schedule_.messages() && sent_.posted - sent_.done < slots_.loaded_count() &&
         received_.done > schedule_.forwards(sent_.posted)) {
    const RingSchedule::Piece piece = schedule_.sent(sent_.posted);
    sent_.in_flight.push_back(job_.channel->send(sent_.peer, source(sent_.posted, piece)));
    ++sent_.posted;
  }
  return sent_.posted != before;
}

bool RingPass::retire_sends() {
  bool moved = false;
  while (!sent_.in_flight.empty() && sent_.in_flight.front().done()) {
    sent_.in_flight.pop_front();
    ++sent_.done;
    moved = true;
  }
  return moved;
}

// The bytes of a message: complete elements, a partial sum that came, or this rank's own elements.
ConstBytes RingPass::source(std::int64_t number, const RingSchedule::Piece& piece) {
  if (format_.narrow != nullptr) return compressed_source(number, piece);
  const auto values = static_cast<std::size_t>(piece.count * format_.value_size);
  if (!piece.reducing) return {output_at(piece.begin), values};
  const auto partial = static_cast<std::size_t>(piece.count * format_.partial_size);
  if (!piece.first) return {slots_.received(schedule_.forwards(number)), partial};
  const std::byte* own = at(job_.input, piece.begin * format_.input_size);
  if (job_.prescale.identity() && format_.partial_size == format_.input_size) return {own, partial};
  if (!job_.channel->abandoned()) format_.input.load(slots_.loaded(number), own, piece.count, job_.prescale);
  return {slots_.loaded(number), partial};
}

ConstBytes RingPass::compressed_source(std::int64_t number, const RingSchedule::Piece& piece) {
  const auto bytes = static_cast<std::size_t>(piece.count * format_.partial_size);
  if (!piece.first) return {slots_.received(schedule_.forwards(number)), bytes};
  if (!job_.channel->abandoned())
    format_.narrow->store(slots_.loaded(number), job_.input + piece.begin * format_.input_size, piece.count,
                          job_.prescale);
  return {slots_.loaded(number), bytes};
}

}  // namespace rueda
