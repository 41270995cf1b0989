// SPDX-License-Identifier: Apache-2.0
#include "ops/local/local_backend.h"

#include <algorithm>
#include <optional>

#include "core/base/host_buffer.h"
#include "core/base/operation_traits.h"
#include "ops/arithmetic/squared_norm.h"
#include "ops/buffers/contiguous_copy.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/pack.h"

namespace rueda {
namespace {

// Purpose: one entry's copy from input to output: packed, scaled, unpacked, a piece a step.
class LocalCopy {
 public:
  LocalCopy(const Plan& plan, const ConstTensorView& input, const TensorView& output, bool scales,
            const Memory& memory)
      : plan_(plan), output_(output, memory), elements_(input.elements()) {
    output_.prepare();
    const bool in_place = output_.data() == input.data && input.contiguous();
    if (!in_place) packing_ = kernels::Packing::pack(output_.data(), input);
    if (!scales || (plan.prescale_factor == 1.0 && plan.postscale_factor == 1.0)) scaled_ = elements_;
  }

  // False when all has been done.
  bool advance() { return packing_.advance() > 0 || scale_some() || output_.advance(); }

 private:
  // values = values * prescale * postscale, by way of the accumulator's type as any other reduction.
  bool scale_some() {
    constexpr std::int64_t kBlock = 4096;
    if (scaled_ == elements_) return false;
    const kernels::Kernels& kernels = kernels::kernels_for(plan_.dtype);
    const auto size = static_cast<std::int64_t>(size_of(plan_.dtype));
    const std::int64_t end = std::min(elements_, scaled_ + kernels::kPieceBytes / size);
    if (!sum_) sum_.emplace(kBlock * size_of(accumulator_of(plan_.dtype)));
    for (; scaled_ < end; scaled_ += std::min(kBlock, end - scaled_)) {
      const std::int64_t count = std::min(kBlock, end - scaled_);
      std::byte* values = output_.data() + scaled_ * size;
      kernels.load(sum_->data(), values, count, {plan_.prescale_factor, 1});
      kernels.store(values, sum_->data(), count, {plan_.postscale_factor, 1});
    }
    return true;
  }

  const Plan& plan_;
  ContiguousOutput output_;
  kernels::Packing packing_;
  std::int64_t elements_;
  std::int64_t scaled_ = 0;
  std::optional<HostBuffer> sum_;
};

// Purpose: the entries one after the other.
class LocalWork final : public Work {
 public:
  LocalWork(const Plan& plan, std::span<Entry> entries, const Memory& memory)
      : plan_(plan), entries_(entries), memory_(memory) {}

  Step step() override {
    if (abandoned_) return Step::given_up;
    if (!copy_) begin(entries_[next_]);
    if (copy_ && copy_->advance()) return Step::again;
    copy_.reset();
    return ++next_ < entries_.size() ? Step::again : Step::done;
  }
  void abandon() override { abandoned_ = true; }
  std::string_view phase() const override { return "copying"; }
  PlanRoute route() const override { return {.inside = "alone"}; }

 private:
  void begin(Entry& entry) {
    const ConstTensorView& input = entry.submission().input;
    if (plan_.operation == Operation::barrier) return;
    TensorView output = entry.submission().output;
    const bool given = plan_.operation == Operation::allreduce || plan_.operation == Operation::broadcast;
    if (plan_.operation == Operation::alltoall) entry.handle->received_splits = {input.shape.front()};
    if (!given) output = allocate_output(entry, input.shape);
    if (input.elements() == 0) return;
    const bool scales = traits(plan_.operation).reduces;
    if (given && output.data == input.data && !scales) return;
    copy_.emplace(plan_, input, output, scales, memory_);
  }

  const Plan& plan_;
  std::span<Entry> entries_;
  const Memory& memory_;
  bool abandoned_ = false;
  std::size_t next_ = 0;
  std::optional<LocalCopy> copy_;
};

}  // namespace

std::unique_ptr<Work> LocalBackend::start(const Plan& plan, std::span<Entry> entries) {
  auto work = std::make_unique<LocalWork>(plan, entries, memory_);
  return measured_after(std::move(work), plan, entries, plan.members->first());
}

}  // namespace rueda
