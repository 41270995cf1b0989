// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/sparse_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ops/algorithms/ring_allreduce.h"

namespace rueda {

SparseSum::SparseSum(Job job)
    : job_(std::move(job)),
      kernels_(kernels::kernels_for(DataType::float32)),
      runs_((job_.elements + kLongestRun - 1) / kLongestRun),
      picked_of_run_(picked_of(job_.share, kLongestRun)),
      picked_of_host_(runs_ == 0 ? 0
                                 : (runs_ - 1) * picked_of_run_ +
                                       picked_of(job_.share, job_.elements - (runs_ - 1) * kLongestRun)) {}

Work::Step SparseSum::step() {
  if (chosen_ < runs_ && !abandoned()) {
    if (picked_.size() == 0) {
      const auto hosts = static_cast<std::size_t>(job_.route.group.size);
      picked_ = job_.route.memory->get("the largest elements of all hosts",
                                       hosts * static_cast<std::size_t>(picked_of_host_) * sizeof(Picked));
    }
    pick(chosen_++);
    return Step::again;
  }
  if (!gathering_) gather();
  if (!gathered_) {
    const Step step = gathering_->step();
    if (step != Step::done) return step;
    gathered_ = true;
  }
  if (abandoned()) return Step::done;
  if (added_ < runs_) add_up(added_++);
  return added_ < runs_ ? Step::again : Step::done;
}

std::string_view SparseSum::phase() const {
  if (gathered_) return "reducing the largest elements of all hosts";
  return gathering_ ? "gathering the largest elements of all hosts" : "packing the largest elements";
}

std::int64_t SparseSum::elements_of(std::int64_t run) const {
  return std::min(kLongestRun, job_.elements - run * kLongestRun);
}

std::span<Picked> SparseSum::picked(std::int64_t host, std::int64_t run) const {
  auto* first = reinterpret_cast<Picked*>(picked_.data()) + host * picked_of_host_ + run * picked_of_run_;
  return {first, static_cast<std::size_t>(picked_of(job_.share, elements_of(run)))};
}

void SparseSum::pick(std::int64_t run) {
  const std::int64_t begin = run * kLongestRun;
  const auto count = static_cast<std::size_t>(elements_of(run));
  float* values = job_.after + begin;
  kernels_.load(values, job_.input + begin, count, job_.prescale);
  if (job_.before != nullptr) kernels_.combine(ReduceOp::sum, values, job_.before + begin, count, {});
  pick_largest({values, count}, picked(job_.route.group.index, run));
}

void SparseSum::gather() {
  const auto bytes = picked_of_host_ * static_cast<std::int64_t>(sizeof(Picked));
  std::vector<std::int64_t> bounds{0};
  for (Rank host = 0; host < job_.route.group.size; ++host) bounds.push_back(bounds.back() + bytes);
  RingPass::Job job = ring_job(job_.route, ScaledReduction{.dtype = DataType::uint8}, std::move(bounds));
  job.schedule.reduces = false;
  job.output = picked_.data();
  gathering_ = std::make_unique<RingPass>(std::move(job));
}

void SparseSum::add_up(std::int64_t run) {
  const auto count = static_cast<std::size_t>(elements_of(run));
  float* sums = job_.output + run * kLongestRun;
  std::memset(sums, 0, count * sizeof(float));
  for (Rank host = 0; host < job_.route.group.size; ++host) {
    if (add_picked({sums, count}, picked(host, run))) continue;
    throw std::runtime_error(
        fmt::format("rank {} sends elements of '{}' that are not among {}. Are all ranks of one build?",
                    job_.route.group.rank_at(host), job_.tensor, count));
  }
  if (!job_.postscale.identity()) kernels_.store(sums, sums, count, job_.postscale);
}

}  // namespace rueda
