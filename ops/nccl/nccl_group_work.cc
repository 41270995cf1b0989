// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_group_work.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace rueda {

NcclGroupWork::NcclGroupWork(const Plan& plan, std::span<Entry> entries, NcclContext context,
                             NcclGroup& group)
    : plan_(plan), entries_(entries), context_(context), group_(group) {
  context_.state.enter(plan_.number);
  group_.await(plan_.number);
  if (!entry().joined) context_.state.set_last_device(entry().submission().device);
}

NcclGroupWork::~NcclGroupWork() {
  context_.state.leave(plan_.number);
  group_.await_no_more(plan_.number);
  if (leads_) group_.set_introducing(false);
  staged_.reset();
}

Work::Step NcclGroupWork::step() {
  if (staged_) return staged_->step();
  if (!connected_) return connect();
  return is_captured() ? carry_out_captured() : carry_out();
}

// A capture that has been spoilt, by whatever the program did in it, fails the operation, not the job.
Work::Step NcclGroupWork::carry_out_captured() {
  try {
    return carry_out();
  } catch (const std::exception& error) {
    group_.give_up_graph(plan_);
    throw WorkFailure{fmt::format("it cannot be captured: {}", error.what())};
  }
}

void NcclGroupWork::abandon() {
  abandoned_ = true;
  if (staged_) return staged_->abandon();
  if (connected_) abandon_own();
}

std::string_view NcclGroupWork::phase() const {
  if (staged_) return staged_->phase();
  return connected_ ? own_phase() : "connecting by NCCL";
}

PlanRoute NcclGroupWork::route() const { return staged_ ? staged_->route() : own_route(); }

Work::Step NcclGroupWork::connect() {
  if (by_the_host_) return go_by_the_host();  // it has failed by that: it connects no second time
  if (introductions_) {
    if (const Step step = introductions_->step(); step != Step::done) return step;
    leads_ = false;
    const bool decided = group_.introduced(introductions_->received());
    introductions_.reset();
    if (!decided) return go_by_the_host();
    if (group_.stage() == NcclGroup::Stage::refused && group_.index() == 0) {
      log(LogLevel::warning, "tensors on devices of {} go by way of the host, not by NCCL: {}",
          to_string(*plan_.members), group_.problem());
    }
    return Step::again;
  }
  switch (group_.stage()) {
    case NcclGroup::Stage::unknown:
      if (!group_.is_first(plan_.number)) return Step::waiting;
      group_.set_introducing(true);
      leads_ = true;
      introductions_.emplace(context_.link, plan_,
                             group_.introduction(context_.sides.devices(), device_here()));
      return Step::again;
    case NcclGroup::Stage::introducing: return Step::waiting;
    case NcclGroup::Stage::connecting: group_.poll(); return Step::waiting;
    case NcclGroup::Stage::ready:
      connected_ = true;
      group_.await_no_more(plan_.number);
      return Step::again;
    case NcclGroup::Stage::refused: break;
  }
  return go_by_the_host();
}

Work::Step NcclGroupWork::go_by_the_host() {
  group_.await_no_more(plan_.number);
  by_the_host_ = true;
  if (plan_.capture != 0) {
    if (abandoned_) return Step::given_up;
    throw WorkFailure{"a graph cannot hold what goes by way of the host: " + group_.problem()};
  }
  context_.state.leave(plan_.number);
  staged_ = context_.staged.start(plan_, entries_);
  if (abandoned_) staged_->abandon();
  return Step::again;
}

// None where this rank has joined, and had none before.
std::optional<int> NcclGroupWork::device_here() const {
  if (entry().joined) return context_.state.last_device();
  return entry().submission().device;
}

NcclEnd NcclGroupWork::own_end() {
  NcclLane& lane = group_.lane_of(plan_);
  return {context_.state.functions(), lane.comm(), static_cast<cudaStream_t>(lane.queue().stream()),
          group_.connected(), group_.connected_index()};
}

void NcclGroupWork::check_device(const Entry& each) const {
  if (each.submission().device == group_.device()) return;
  throw BackendError(Status::backend_error(fmt::format(
      "{}: its tensor is on device {}, but NCCL has connected these ranks by device {} of this process; "
      "use one device in each process.",
      title(each.request()), each.submission().device, group_.device())));
}

std::byte* NcclGroupWork::temporary(const ConstTensorView& values, std::size_t bytes) {
  Temporary& memory = temporaries_.emplace_back();
  memory.device = side().memory.take("what stands in for it", bytes);
  if (values.data == nullptr || bytes == 0) return memory.device.data();
  memory.pinned = side().pinned.take("what stands in for it", bytes);
  std::memcpy(memory.pinned.data(), values.data, bytes);
  group_.lane_of(plan_).queue().copy(memory.device.data(), memory.pinned.data(), bytes);
  return memory.device.data();
}

void NcclGroupWork::finish() {
  const std::shared_ptr<const Fence> fence = group_.lane_of(plan_).record();
  for (Entry& each : entries_) each.handle->fence = fence;
  for (Temporary& memory : temporaries_) {
    if (memory.pinned.memory) side().pinned.give_back(std::move(memory.pinned), fence);
    if (memory.device.memory) side().memory.give_back(std::move(memory.device), fence);
  }
  temporaries_.clear();
}

}  // namespace rueda
