// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device_local_backend.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "core/engine/submissions/submission.h"

namespace rueda {
namespace {

double factor_of(const Plan& plan) {
  return traits(plan.operation).reduces ? plan.prescale_factor * plan.postscale_factor : 1.0;
}

// Purpose: gives the device a copy for each entry, and is over.
class DeviceLocalWork final : public Work {
 public:
  DeviceLocalWork(const Plan& plan, std::span<Entry> entries, DeviceSides& sides)
      : plan_(plan), entries_(entries), sides_(sides) {}

  Step step() override {
    if (abandoned_) return Step::given_up;
    try {
      for (Entry& entry : entries_) {
        if (!entry.joined) copy(entry);
      }
    } catch (const BackendError& error) {
      if (plan_.capture == 0) throw;
      throw WorkFailure{fmt::format("it cannot be captured: {}", error.what())};
    }
    return Step::done;
  }
  void abandon() override { abandoned_ = true; }
  std::string_view phase() const override { return "copying on the device"; }
  PlanRoute route() const override { return {.inside = "alone", .ends_on_device = true}; }

 private:
  void copy(Entry& entry) {
    const Submission& submission = entry.submission();
    DeviceSide& side = sides_.at(submission.device);
    DeviceQueue& queue = plan_.capture == 0 ? *side.queue : side.queue_of(graph_of(plan_));
    const ConstTensorView& input = submission.input;
    TensorView output = submission.output;
    const bool makes_output = traits(plan_.operation).makes_output;
    if (plan_.operation == Operation::alltoall) entry.handle->received_splits = {input.shape.front()};
    if (makes_output) output = allocate_output(entry, input.shape);  // may fail: nothing has been begun
    submission.ready->hold_back(queue.stream());
    if (makes_output) side.device.record(submission.stream)->hold_back(queue.stream());
    const bool moves = output.data != input.data || factor_of(plan_) != 1.0;
    if (moves && input.elements() > 0)
      queue.copy(BatchCopy{
          plan_.dtype, plan_.dtype, factor_of(plan_), {{input.data, output.data, input.elements()}}});
    entry.handle->fence = queue.record();
  }

  const Plan& plan_;
  std::span<Entry> entries_;
  DeviceSides& sides_;
  bool abandoned_ = false;
};

}  // namespace

bool DeviceLocalBackend::can_run(const Plan& plan) const {
  const bool begins_a_graph = plan.operation == Operation::barrier && plan.capture != 0;
  return plan.members->count() == 1 && !plan.measure &&
         (plan.operation != Operation::barrier || begins_a_graph) &&
         BatchCopy::possible(plan.dtype, plan.dtype, factor_of(plan));
}

std::unique_ptr<Work> DeviceLocalBackend::start(const Plan& plan, std::span<Entry> entries) {
  return std::make_unique<DeviceLocalWork>(plan, entries, *sides_);
}

}  // namespace rueda
