// SPDX-License-Identifier: Apache-2.0
// What an NcclWork gives the device.
#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "ops/nccl/nccl_work.h"

namespace rueda {

void NcclWork::launch() {
  NcclLane& lane = group_.lane_of(plan_);
  for (Entry& each : entries_) {
    if (each.ghost) {
      Submission& submission = each.submission();
      submission.output.data = ghost_memory(submission.input, submission.input.bytes());
      submission.input.data = submission.output.data;
      continue;
    }
    if (each.submission().device != group_.device()) {
      throw BackendError(Status::backend_error(fmt::format(
          "{}: its tensor is on device {}, but NCCL has connected these ranks by device {} of this process; "
          "use one device in each process.",
          title(each.request()), each.submission().device, group_.device())));
    }
    each.submission().ready->hold_back(lane.queue().stream());
  }
  if (output_.data != nullptr && !entry().ghost) {  // which the program may have used until now
    side().device.record(entry().submission().stream)->hold_back(lane.queue().stream());
  }
  if (traits(plan_.operation).reduces) {
    launch_reductions(caller(), lane);
  } else {
    launch_exchange(caller());
  }
}

NcclCaller NcclWork::caller() {
  NcclLane& lane = group_.lane_of(plan_);
  return {place_.state.functions(), lane.comm(), static_cast<cudaStream_t>(lane.queue().stream()),
          group_.size(), group_.place()};
}

namespace {

// The tensors of a Plan between their places and a buffer in which they travel as elements of some type.
BatchCopy between(const Plan& plan, std::span<Entry> entries, std::byte* buffer, DataType travels_as,
                  bool packs) {
  BatchCopy copy;
  copy.from_type = packs ? plan.dtype : travels_as;
  copy.to_type = packs ? travels_as : plan.dtype;
  const auto size = static_cast<std::int64_t>(size_of(plan.dtype)),
             there = static_cast<std::int64_t>(size_of(travels_as));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Submission& submission = entries[i].submission();
    std::byte* const place = buffer + plan.tensors[i].offset / size * there;
    const std::int64_t elements = submission.input.elements();
    if (elements == 0) continue;
    copy.pieces.push_back(packs ? CopyPiece{submission.input.data, place, elements}
                                : CopyPiece{place, submission.output.data, elements});
  }
  return copy;
}

}  // namespace

void NcclWork::launch_reductions(const NcclCaller& caller, NcclLane& lane) {
  reduction_ = reduction_of(caller, plan_, travels_as());
  if (plan_.operation == Operation::reducescatter) {
    std::vector<std::int64_t> elements = rows_scattered();
    const std::int64_t row = row_element_count(entry().request().shape);
    for (std::int64_t& each : elements) each *= row;
    return launch_reducescatter(caller, reduction_, entry().submission().input.data, output_.data, elements,
                                size_of(plan_.dtype));
  }
  std::vector<NcclRun> runs;
  if (packs()) {
    lane.queue().copy(between(plan_, entries_, lane.buffer(), travels_as(), true));
    const std::int64_t elements = plan_.buffer_bytes / static_cast<std::int64_t>(size_of(plan_.dtype));
    runs.push_back({lane.buffer(), lane.buffer(), elements});
  } else {
    for (Entry& each : entries_) {
      const Submission& submission = each.submission();
      runs.push_back({submission.input.data, submission.output.data, submission.input.elements()});
    }
  }
  launch_allreduce(caller, reduction_, runs);
}

void NcclWork::launch_exchange(const NcclCaller& caller) {
  const Submission& submission = entry().submission();
  const void* const from = submission.input.data;
  if (plan_.operation == Operation::broadcast) {
    const Rank root = plan_.members->index_of(plan_.root);
    return launch_broadcast(caller, root == group_.place() ? from : submission.output.data,
                            submission.output.data, static_cast<std::int64_t>(submission.input.bytes()),
                            root);
  }
  if (plan_.operation == Operation::allgather)
    return launch_allgather(caller, from, output_.data, in_bytes(received_));
  launch_alltoall(caller, from, output_.data, in_bytes(sent_), in_bytes(received_));
}

std::vector<std::int64_t> NcclWork::in_bytes(std::vector<std::int64_t> rows) const {
  const std::int64_t row =
      row_element_count(entry().request().shape) * static_cast<std::int64_t>(size_of(plan_.dtype));
  for (std::int64_t& each : rows) each *= row;
  return rows;
}

// NCCL has given the device all of it.
void NcclWork::finish() {
  NcclLane& lane = group_.lane_of(plan_);
  if (packs()) lane.queue().copy(between(plan_, entries_, lane.buffer(), travels_as(), false));
  release(caller(), reduction_);
  const std::shared_ptr<const Fence> fence = lane.record();
  for (Entry& each : entries_) each.handle->fence = fence;
  for (GhostMemory& memory : ghosts_) {
    if (memory.pinned.memory) side().pinned.give_back(std::move(memory.pinned), fence);
    side().memory.give_back(std::move(memory.device), fence);
  }
}

}  // namespace rueda
