// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "ops/algorithms/reducescatter.h"

namespace rueda {

NcclWork::NcclWork(const Plan& plan, std::span<Entry> entries, NcclContext context)
    : NcclGroupWork(plan, entries, context, context.state.group(*plan.members, NcclReach::all)),
      stage_(first_stage(plan)) {}

void NcclWork::abandon_own() {
  if (exchange_ && stage_ == Stage::vote) exchange_->abandon();
}

std::string_view NcclWork::own_phase() const { return to_string(stage_); }

std::string_view to_string(NcclWork::Stage stage) {
  using Stage = NcclWork::Stage;
  switch (stage) {
    case Stage::window: return "comparing windows";
    case Stage::graph: return "agreeing on a graph";
    case Stage::sizes: return "exchanging sizes";
    case Stage::output:
    case Stage::vote: return "agreeing that memory is there";
    case Stage::turn: return "waiting for an earlier operation of NCCL's to begin";
    case Stage::registering: return "telling NCCL of a window";
    case Stage::giving_back: return "having NCCL forget a window";
    case Stage::warming: return "connecting a graph by NCCL";
    case Stage::launched: break;
  }
  return "launching NCCL";
}

Work::Step NcclWork::carry_out() {
  if (exchange_) return exchange();
  switch (stage_) {
    case Stage::window: begin_exchange(own_window()); return Step::again;
    case Stage::graph: begin_exchange(own_graph()); return Step::again;
    case Stage::sizes: begin_exchange(own_sizes()); return Step::again;
    case Stage::output:
      if (!abandoned_) make_output();
      stage_ = Stage::vote;
      return Step::again;
    case Stage::vote: begin_exchange({std::byte{1}}); return Step::again;
    case Stage::turn:
      if (abandoned_ && verdict_.difference.empty() && !is_captured()) cannot_be_taken_back();
      if (abandoned_) return Step::given_up;
      if (!context_.state.is_next(plan_.number)) return Step::waiting;
      if (!verdict_.difference.empty()) throw WorkFailure{verdict_.difference};
      if (begins_a_graph()) {
        group_.connect_graph(plan_);
        stage_ = Stage::warming;
        return Step::again;
      }
      if (plan_.operation != Operation::barrier) launch();
      stage_ = verdict_.registered ? Stage::registering : Stage::giving_back;
      return Step::again;
    case Stage::registering:
      if (!group_.registered(*entry().submission().window)) return Step::waiting;
      stage_ = Stage::giving_back;
      return Step::again;
    case Stage::giving_back:
      if (!group_.gave_back(verdict_.gone)) return Step::waiting;
      stage_ = Stage::launched;
      return Step::again;
    case Stage::warming:
      if (!group_.lane_of(plan_).ready()) return Step::waiting;
      if (!warm_up()) stage_ = Stage::launched;
      return Step::again;
    case Stage::launched: break;
  }
  if (abandoned_ && is_captured()) return Step::given_up;
  if (!group_.lane_of(plan_).ready()) return Step::waiting;
  settle_results(group_.lane_of(plan_));
  finish();
  if (in_window() && group_.has_several_lanes()) group_.windows().used(plan_.tensors, entry().handle->fence);
  return Step::done;
}

NcclWork::Stage NcclWork::first_stage(const Plan& plan) {
  if (plan.operation == Operation::barrier) return plan.capture == 0 ? Stage::window : Stage::graph;
  if (traits(plan.operation).ragged_first_axis) return Stage::sizes;
  return plan.operation == Operation::reducescatter ? Stage::output : Stage::turn;
}

void NcclWork::begin_exchange(const Bytes& own) {
  exchange_.emplace(context_.link, plan_, own);
  if (abandoned_ && stage_ == Stage::vote) exchange_->abandon();
}

Work::Step NcclWork::exchange() {
  const Step step = exchange_->step();
  if (step == Step::done) {
    exchanged();
    exchange_.reset();
    return Step::again;
  }
  return step;
}

void NcclWork::exchanged() {
  Reader all = exchange_->received();
  if (stage_ == Stage::window) {
    verdict_ = group_.windows().compare(all, *plan_.members);
    stage_ = Stage::turn;
  } else if (stage_ == Stage::graph) {
    verdict_.difference = group_.problem_of_graph(plan_, all);
    stage_ = Stage::turn;
  } else if (stage_ == Stage::sizes) {
    const auto size = static_cast<std::size_t>(group_.size()),
               mine = static_cast<std::size_t>(group_.index());
    const std::size_t told = plan_.operation == Operation::alltoall ? size : 1;
    received_.assign(size, 0);
    for (std::size_t member = 0; member < size; ++member) {
      for (std::size_t i = 0; i < told; ++i) {
        const auto rows = all.get<std::int64_t>();
        if (told == 1 || i == mine) received_[member] = rows;
      }
    }
    RUEDA_ASSERT(all.complete());
    stage_ = Stage::output;
  } else {
    stage_ = Stage::turn;
  }
}

void NcclWork::cannot_be_taken_back() const {
  throw std::runtime_error(
      fmt::format("{} has failed here, and cannot be taken back from the devices of the other ranks",
                  title(*plan_.tensors.front().request)));
}

Bytes NcclWork::own_window() const {
  const DeviceWindow* window = entry().submission().window.get();
  const bool brings = window != nullptr && window->memory != nullptr;
  return group_.windows().words(brings ? window : nullptr, brings && group_.can_register(*window));
}

Bytes NcclWork::own_graph() {
  std::string problem;
  if (entry().joined) {
    problem = "it has joined";
  } else if (entry().submission().device != group_.device()) {
    problem = fmt::format("it captures on device {}, and NCCL has connected it by device {}",
                          entry().submission().device, group_.device());
  }
  return group_.graph_words(plan_, side().device, std::move(problem));
}

Bytes NcclWork::own_sizes() {
  const std::int64_t rows = entry().request().shape.front();
  if (plan_.operation == Operation::allgather) {
    sent_ = {rows};
  } else if (sent_ = entry().submission().splits; sent_.empty()) {
    sent_.assign(static_cast<std::size_t>(group_.size()), rows / group_.size());
  }
  Writer writer;
  for (const std::int64_t each : sent_) writer.put(each);
  return writer.take();
}

// Rows of each member of a reducescatter.
std::vector<std::int64_t> NcclWork::rows_scattered() const {
  const std::int64_t rows = entry().request().shape.front();
  std::vector<std::int64_t> parts;
  for (Rank index = 0; index < group_.size(); ++index)
    parts.push_back(share_of_rows(rows, index, group_.size()));
  return parts;
}

void NcclWork::make_output() {
  Shape shape = entry().request().shape;
  if (plan_.operation == Operation::reducescatter) {
    shape.front() = rows_scattered()[static_cast<std::size_t>(group_.index())];
  } else {
    shape.front() = std::accumulate(received_.begin(), received_.end(), std::int64_t{0});
  }
  if (entry().joined) {
    output_ = {nullptr, plan_.dtype, shape, {}};
    output_.data = temporary({}, output_.bytes());
  } else {
    if (plan_.operation == Operation::alltoall) entry().handle->received_splits = received_;
    output_ = allocate_output(entry(), shape);
  }
}

// A narrower type only between hosts, and where there is a buffer for it.
bool NcclWork::narrows() const {
  const bool asked = plan_.compression == Compression::fp16 || plan_.compression == Compression::bf16;
  return asked && plan_.dtype == DataType::float32 && group_.on_several_hosts();
}

bool NcclWork::packs() const {
  if (plan_.operation != Operation::allreduce || in_window()) return false;
  const bool fits = plan_.buffer_bytes <= static_cast<std::int64_t>(group_.buffer_bytes());
  return fits && (narrows() || entries_.size() > 1);
}

DataType NcclWork::travels_as() const {
  if (!packs() || !narrows()) return plan_.dtype;
  return plan_.compression == Compression::fp16 ? DataType::float16 : DataType::bfloat16;
}

// Whether it would work in slots of windows, if its tensors had them. A graph's communicator knows none.
bool NcclWork::takes_window() const {
  return plan_.operation == Operation::allreduce && !narrows() && plan_.capture == 0;
}

// Whether all its tensors have slots in windows, and may be there: the same on all ranks.
bool NcclWork::in_window() const {
  if (!takes_window()) return false;
  return std::ranges::all_of(plan_.tensors, [&](const PlanTensor& tensor) {
    const auto bytes = static_cast<std::size_t>(bytes_of(*tensor.request));
    if (tensor.request->elsewhere) return false;
    return bytes == 0 || group_.windows().find(tensor.name(), bytes) != nullptr;
  });
}

}  // namespace rueda
