// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/doubling_allreduce.h"

#include <utility>

#include "ops/ring.h"

namespace rueda {
namespace {

constexpr auto kLine = static_cast<std::int64_t>(HostBuffer::kAlignment);

std::int64_t bytes_of(std::int64_t elements, DataType dtype) {
  return elements * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

DoublingAllreduce::DoublingAllreduce(Job job)
    : job_(std::move(job)),
      values_(kernels::kernels_for(job_.reduction.dtype)),
      sums_(kernels::kernels_for(accumulator_of(job_.reduction.dtype))),
      value_bytes_(bytes_of(job_.elements, job_.reduction.dtype)),
      sum_bytes_(bytes_of(job_.elements, accumulator_of(job_.reduction.dtype))),
      steps_(doubling_steps(job_.route.group.place, job_.route.group.size)) {}

Work::Step DoublingAllreduce::step() {
  if (!loaded_) load();
  bool moved = false;
  while (at_ < steps_.size()) {
    if (!sending_) begin();
    moved |= sending_->advance();
    moved |= receiving_->advance();
    if (!sending_->done() || !receiving_->done()) return moved ? Step::again : Step::waiting;
    end();
  }
  store();
  return Step::done;
}

std::string_view DoublingAllreduce::phase() const {
  const bool result = at_ < steps_.size() && steps_[at_].of_result();
  return result ? "passing on the result" : "reducing by recursive doubling";
}

// Repeated without memory, it is abandoned.
void DoublingAllreduce::load() {
  if (!abandoned()) {
    const std::size_t slot = HostBuffer::whole_lines(static_cast<std::size_t>(sum_bytes_));
    scratch_ = job_.route.memory->get("partial sums", 2 * slot);
    sum_ = scratch_.data();
    other_ = sum_ + slot;
    const kernels::Kernels& of_input = job_.reduction.of_sums ? sums_ : values_;
    of_input.load(sum_, job_.input, static_cast<std::size_t>(job_.elements), job_.reduction.prescale);
  }
  loaded_ = true;
}

void DoublingAllreduce::begin() {
  const DoublingStep& step = steps_[at_];
  if (step.kind == DoublingStep::Kind::give_result) store();
  const Route& route = job_.route;
  const Rank peer = route.group.rank_at(step.peer);
  const auto bytes = static_cast<std::size_t>(step.of_result() ? value_bytes_ : sum_bytes_);
  // One way only: the other stream is empty.
  receiving_.emplace(*route.wire, peer, step.of_result() ? job_.output : other_, step.receives() ? bytes : 0,
                     route.chunk_bytes);
  sending_.emplace(*route.wire, peer, step.of_result() ? job_.output : sum_, step.sends() ? bytes : 0,
                   route.chunk_bytes);
  // Both are posted before anything moves: their frames leave together.
  receiving_->advance();
  sending_->advance();
}

void DoublingAllreduce::end() {
  const DoublingStep& step = steps_[at_++];
  sending_.reset();
  receiving_.reset();
  if (!step.receives() || abandoned()) return;
  if (step.kind == DoublingStep::Kind::take_result) {
    stored_ = true;
    return count_squares();
  }
  if (step.peer < job_.route.group.place) std::swap(sum_, other_);
  sums_.combine(job_.reduction.op, sum_, other_, static_cast<std::size_t>(job_.elements), {});
}

void DoublingAllreduce::store() {
  if (std::exchange(stored_, true) || abandoned()) return;
  values_.store(job_.output, sum_, static_cast<std::size_t>(job_.elements), job_.reduction.postscale);
  count_squares();
}

void DoublingAllreduce::count_squares() {
  if (!job_.squares) return;
  const Group& group = job_.route.group;
  const auto size = static_cast<std::int64_t>(size_of(job_.reduction.dtype));
  const std::vector<std::int64_t> bounds = RingSchedule::even_bounds(job_.elements, group.size, kLine / size);
  const std::int64_t begin = bounds[group.place], count = bounds[group.place + 1] - begin;
  job_.squares->add_fused(begin, job_.output + begin * size, count);
}

}  // namespace rueda
