// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/topk_allreduce.h"

#include <utility>

#include "ops/algorithms/sparse_sum.h"
#include "ops/buffers/contiguous_copy.h"
#include "ops/schedules/scaled_reduction.h"

namespace rueda {
namespace {

// Purpose: a residual and a SparseSum on it; strided tensors through contiguous copies.
class TopkAllreduce final : public Algorithm {
 public:
  TopkAllreduce(const Route& route, const Plan& plan, Entry& entry, ErrorFeedback& feedback)
      : route_(route),
        plan_(plan),
        lease_(feedback.lease(key_of(*plan.tensors.front().request))),
        input_(entry.submission().input, *route.memory),
        output_(entry.submission().output, *route.memory) {}

  Step step() override {
    if (!summing_ && !abandoned()) {
      if (!begun_ && !begin()) return Step::waiting;
      output_.prepare();
      if (input_.advance()) return Step::again;
    }
    if (!summing_) start();
    if (!summed_) {
      const Step step = summing_->step();
      if (step != Step::done) return step;
      summed_ = true;
    }
    if (abandoned()) return Step::done;
    if (output_.advance()) return Step::again;
    lease_.commit();
    return Step::done;
  }

  std::string_view phase() const override {
    if (summed_) return "unpacking a tensor";
    return summing_ ? summing_->phase() : "packing a tensor";
  }

 private:
  bool abandoned() const { return route_.channel->abandoned(); }

  bool begin() {
    const std::int64_t elements = plan_.tensors.front().elements();
    begun_ = lease_.begin({elements, elements, 0}, *route_.memory);
    return begun_;
  }

  void start() {
    const ScaledReduction reduction = ScaledReduction::of(plan_, route_.group.size);
    SparseSum::Job job{.route = route_,
                       .tensor = plan_.tensors.front().name(),
                       .share = plan_.compression_share,
                       .elements = plan_.tensors.front().elements(),
                       .prescale = reduction.prescale,
                       .postscale = reduction.postscale};
    if (!abandoned()) {
      job.input = reinterpret_cast<const float*>(input_.data());
      job.output = reinterpret_cast<float*>(output_.data());
      job.before = lease_.before();
      job.after = lease_.after();
    }
    summing_ = std::make_unique<SparseSum>(std::move(job));
  }

  Route route_;
  const Plan& plan_;
  ErrorFeedback::Lease lease_;
  bool begun_ = false;  // its turn has come
  ContiguousInput input_;
  ContiguousOutput output_;
  std::unique_ptr<SparseSum> summing_;
  bool summed_ = false;
};

}  // namespace

std::unique_ptr<Algorithm> topk_allreduce(const Route& route, const Plan& plan, Entry& entry,
                                          ErrorFeedback& feedback) {
  return std::make_unique<TopkAllreduce>(route, plan, entry, feedback);
}

}  // namespace rueda
