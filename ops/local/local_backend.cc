// SPDX-License-Identifier: Apache-2.0
#include "ops/local/local_backend.h"

#include <algorithm>

#include "core/base/host_buffer.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/pack.h"
#include "ops/staging.h"

namespace rueda {
namespace {

// values = values * prescale * postscale, by way of the accumulator's type as any other reduction.
void scale_in_place(const Plan& plan, std::byte* values, std::int64_t elements) {
  constexpr std::int64_t kBlock = 4096;
  if (plan.prescale_factor == 1.0 && plan.postscale_factor == 1.0) return;
  const kernels::Kernels& kernels = kernels::kernels_for(plan.dtype);
  const auto size = static_cast<std::int64_t>(size_of(plan.dtype));
  HostBuffer sum(kBlock * size_of(accumulator_of(plan.dtype)));
  for (std::int64_t i = 0; i < elements; i += kBlock) {
    const std::int64_t count = std::min(kBlock, elements - i);
    kernels.load(sum.data(), values + i * size, count, {plan.prescale_factor, 1});
    kernels.store(values + i * size, sum.data(), count, {plan.postscale_factor, 1});
  }
}

// Purpose: does everything in one step for each tensor.
class LocalWork final : public Work {
 public:
  LocalWork(const Plan& plan, std::span<Entry> entries) : plan_(plan), entries_(entries) {}

  Step step() override {
    carry_out(entries_[next_++]);
    return next_ < entries_.size() ? Step::again : Step::done;
  }
  std::string_view phase() const override { return "copying"; }

 private:
  void carry_out(Entry& entry) {
    const ConstTensorView& input = entry.submission.input;
    if (plan_.operation == Operation::barrier) return;
    TensorView output = entry.submission.output;
    const bool given = plan_.operation == Operation::allreduce || plan_.operation == Operation::broadcast;
    if (!given) output = allocate_output(entry, input.shape);
    if (plan_.operation == Operation::alltoall) entry.handle->received_splits = {input.shape.front()};
    if (input.elements() == 0) return;
    const bool scaled = traits(plan_.operation).reduces;
    if (given && output.data == input.data && !scaled) return;
    ContiguousOutput place(output);
    const bool in_place = place.data() == input.data && input.contiguous();
    if (!in_place) kernels::pack(place.data(), input);
    if (scaled) scale_in_place(plan_, place.data(), input.elements());
    place.finish();
  }

  const Plan& plan_;
  std::span<Entry> entries_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Work> LocalBackend::start(const Plan& plan, std::span<Entry> entries) {
  return std::make_unique<LocalWork>(plan, entries);
}

}  // namespace rueda
