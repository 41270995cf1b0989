// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/reducescatter.h"

#include "ops/algorithms/passes/ordered_pass.h"
#include "ops/algorithms/ring_allreduce.h"
#include "ops/buffers/contiguous_copy.h"

namespace rueda {
namespace {

// Purpose: makes the input contiguous, and keeps it so for as long as a pass works on it.
class Reducescatter final : public Algorithm {
 public:
  Reducescatter(const Route& route, const ScaledReduction& reduction, Entry& entry)
      : route_(route),
        reduction_(reduction),
        entry_(entry),
        input_(entry.submission().input, *route.memory) {}

  Step step() override {
    if (!route_.channel->abandoned() && input_.advance()) return Step::again;
    if (!pass_) start();
    return pass_->step();
  }

  std::string_view phase() const override { return pass_ ? pass_->phase() : "packing the input"; }

 private:
  void start() {
    Shape shape = entry_.request().shape;
    const std::int64_t rows = shape.front(), row = row_element_count(shape);
    const Group& group = route_.group;
    std::vector<std::int64_t> bounds{0};
    for (Rank index = 0; index < group.size; ++index)
      bounds.push_back(bounds.back() + share_of_rows(rows, index, group.size) * row);
    shape.front() = share_of_rows(rows, group.index, group.size);
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    if (!route_.channel->abandoned()) {
      input = input_.data();
      output = static_cast<std::byte*>(allocate_output(entry_, shape).data);
    }
    if (reduction_.order == ReductionOrder::fixed) {
      pass_ = std::make_unique<OrderedPass>(
          OrderedPass::Job{route_, reduction_, std::move(bounds), input, output});
    } else {
      pass_ = std::make_unique<RingPass>(ring_pass_job(std::move(bounds), input, output));
    }
  }

  RingPass::Job ring_pass_job(std::vector<std::int64_t> bounds, const std::byte* input, std::byte* output) {
    RingPass::Job job = ring_job(route_, reduction_, std::move(bounds));
    job.schedule.gathers = false;
    job.input = input;
    job.output = output;
    job.output_origin = job.schedule.bounds[route_.group.index];
    return job;
  }

  Route route_;
  ScaledReduction reduction_;
  Entry& entry_;
  ContiguousInput input_;
  std::unique_ptr<Algorithm> pass_;  // once the input is contiguous
};

}  // namespace

std::int64_t share_of_rows(std::int64_t rows, Rank rank, Rank size) {
  return rows / size + (rank < rows % size ? 1 : 0);
}

std::unique_ptr<Algorithm> reducescatter(const Route& route, const ScaledReduction& reduction, Entry& entry) {
  return std::make_unique<Reducescatter>(route, reduction, entry);
}

}  // namespace rueda
