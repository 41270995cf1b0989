// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/ring_reducescatter.h"

#include "ops/algorithms/ring_allreduce.h"
#include "ops/staging.h"

namespace rueda {
namespace {

// Purpose: makes the input contiguous, and keeps it so for as long as the ring works on it.
class RingReducescatter final : public Algorithm {
 public:
  RingReducescatter(const Route& route, const ScaledReduction& reduction, Entry& entry)
      : route_(route), reduction_(reduction), entry_(entry), input_(entry.submission.input, *route.memory) {}

  Step step() override {
    if (!route_.wire->abandoned() && input_.advance()) return Step::again;
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
    for (Rank place = 0; place < group.size; ++place)
      bounds.push_back(bounds.back() + share_of_rows(rows, place, group.size) * row);
    shape.front() = share_of_rows(rows, group.place, group.size);
    RingPass::Job job = ring_job(route_, reduction_, bounds);
    job.schedule.gathers = false;
    if (!route_.wire->abandoned()) {
      job.input = input_.data();
      job.output = static_cast<std::byte*>(allocate_output(entry_, shape).data);
    }
    job.output_origin = bounds[group.place];
    pass_ = std::make_unique<RingPass>(std::move(job));
  }

  Route route_;
  ScaledReduction reduction_;
  Entry& entry_;
  ContiguousInput input_;
  std::unique_ptr<RingPass> pass_;  // once the input is contiguous
};

}  // namespace

std::int64_t share_of_rows(std::int64_t rows, Rank rank, Rank size) {
  return rows / size + (rank < rows % size ? 1 : 0);
}

std::unique_ptr<Algorithm> ring_reducescatter(const Route& route, const ScaledReduction& reduction,
                                              Entry& entry) {
  return std::make_unique<RingReducescatter>(route, reduction, entry);
}

}  // namespace rueda
