// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/doubling_allreduce.h"

#include <utility>

#include "ops/schedules/ring.h"

namespace rueda {
namespace {

std::vector<std::int64_t> line_bounds(const DoublingAllreduce::Job& job) {
  return RingSchedule::line_bounds(job.elements, job.route.group.size, job.reduction.dtype);
}

}  // namespace

DoublingAllreduce::DoublingAllreduce(Job job)
    : job_(std::move(job)),
      values_(*job_.reduction.accumulation().values),
      sums_(*job_.reduction.accumulation().sums),
      value_size_(static_cast<std::int64_t>(size_of(job_.reduction.dtype))),
      sum_size_(static_cast<std::int64_t>(job_.reduction.accumulation().sum_size)),
      bounds_(halves() ? line_bounds(job_) : std::vector<std::int64_t>{0, job_.elements}),
      steps_(halves() ? halving_steps(job_.route.group.index, job_.route.group.size)
                      : doubling_steps(job_.route.group.index, job_.route.group.size)) {}

Work::Step DoublingAllreduce::step() {
  if (!partial_.loaded) load();
  bool moved = false;
  while (at_ < steps_.size()) {
    if (!sending_) begin();
    moved |= sending_->advance();
    moved |= receiving_->advance();
    if (!sending_->done() || !receiving_->done()) return moved ? Step::again : Step::waiting;
    end();
  }
  finish();
  return Step::done;
}

std::string_view DoublingAllreduce::phase() const {
  if (at_ < steps_.size() && steps_[at_].of_result()) return halves() ? "gathering" : "passing on the result";
  return halves() ? "reducing by recursive halving" : "reducing by recursive doubling";
}

// Repeated without memory, it is abandoned.
void DoublingAllreduce::load() {
  if (!abandoned()) {
    const std::size_t slot = HostBuffer::whole_lines(static_cast<std::size_t>(job_.elements * sum_size_));
    partial_.scratch = job_.route.memory->get("partial sums", 2 * slot);
    partial_.own = partial_.scratch.data();
    partial_.peers = partial_.own + slot;
    const kernels::Kernels& of_input = job_.reduction.of_sums ? sums_ : values_;
    of_input.load(partial_.own, job_.input, static_cast<std::size_t>(job_.elements), job_.reduction.prescale);
  }
  partial_.loaded = true;
}

void DoublingAllreduce::begin() {
  const PairStep& step = steps_[at_];
  if (step.of_result() && step.sends()) store();
  const Route& route = job_.route;
  const Rank peer = route.group.rank_at(step.peer);
  const std::int64_t size = step.of_result() ? value_size_ : sum_size_;
  const Range from = range(step.sent), to = range(step.received);
  std::byte* const receives_into = at(step.of_result() ? job_.output : partial_.peers, to.begin * size);
  std::byte* const sends_from = at(step.of_result() ? job_.output : partial_.own, from.begin * size);
  // One way only: the other stream is empty.
  receiving_.emplace(*route.channel, peer, receives_into, step.receives() ? to.count * size : 0,
                     route.chunk_bytes);
  sending_.emplace(*route.channel, peer, sends_from, step.sends() ? from.count * size : 0, route.chunk_bytes);
  // Both are posted before anything moves: their frames leave together.
  receiving_->advance();
  sending_->advance();
}

void DoublingAllreduce::end() {
  const PairStep& step = steps_[at_++];
  sending_.reset();
  receiving_.reset();
  if (step.kind == PairStep::Kind::take_result) partial_.stored = true;
  if (!step.receives() || step.of_result() || abandoned()) return;
  partial_.complete = step.received;
  if (step.peer < job_.route.group.index) std::swap(partial_.own, partial_.peers);
  const Range combined = range(partial_.complete);
  sums_.combine(job_.reduction.op, partial_.own + combined.begin * sum_size_,
                partial_.peers + combined.begin * sum_size_, static_cast<std::size_t>(combined.count), {});
}

void DoublingAllreduce::store() {
  if (std::exchange(partial_.stored, true) || abandoned()) return;
  const Range own = range(partial_.complete);
  values_.store(job_.output + own.begin * value_size_, partial_.own + own.begin * sum_size_,
                static_cast<std::size_t>(own.count), job_.reduction.postscale);
}

// Of the square sums, each rank counts a part of its own.
void DoublingAllreduce::finish() {
  store();
  if (!job_.squares || abandoned()) return;
  const std::vector<std::int64_t> bounds = line_bounds(job_);
  const std::int64_t begin = bounds[job_.route.group.index];
  const std::int64_t count = bounds[job_.route.group.index + 1] - begin;
  job_.squares->add_fused(begin, job_.output + begin * value_size_, count);
}

}  // namespace rueda
