// SPDX-License-Identifier: Apache-2.0
// The operations that an NcclWork gives the device.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/host_buffer.h"
#include "core/base/operation_traits.h"
#include "core/engine/submissions/submission.h"
#include "ops/nccl/nccl_work.h"

namespace rueda {

void NcclWork::launch() {
  NcclLane& lane = group_.lane_of(plan_);
  for (Entry& each : entries_) {
    if (each.joined && plan_.capture != 0) {
      throw std::runtime_error(
          fmt::format("{} is captured into a graph, and this rank has joined: it would not run that",
                      title(each.request())));
    }
    if (each.joined) {
      Submission& submission = each.submission();
      submission.output.data = memory_for(each.request(), submission.input, submission.input.bytes());
      submission.input.data = submission.output.data;
      continue;
    }
    check_device(each);
    each.submission().ready->hold_back(lane.queue().stream());
    if (!packs() && !in_window() && plan_.capture == 0) keep_apart(each, lane);
  }
  if (in_window() && group_.has_several_lanes()) {  // another may be at work there
    group_.windows().hold_back(lane.queue().stream(), plan_.tensors);
  }
  // The program may have used until now what it has allocated just now.
  if (output_.data != nullptr && !entry().joined && !entry().submission().into_output) {
    side().device.record(entry().submission().stream)->hold_back(lane.queue().stream());
  }
  if (traits(plan_.operation).reduces) {
    launch_reductions(own_end(), lane);
  } else {
    launch_exchange(own_end());
  }
}

// NCCL connects what it needs at the first use, and not all of that may happen while a graph is captured. One
// thing at a time: false when there is no more.
bool NcclWork::warm_up() {
  const auto size = static_cast<std::size_t>(group_.size());
  std::byte* const memory = temporary({}, sizeof(float) + 2 * size);
  if (warm_++ == 0) {
    const NcclRun one{memory, memory, 1};
    launch_allreduce(own_end(), plain_reduction(ReduceOp::sum, DataType::float32), {&one, 1});
    return true;
  }
  const std::vector<std::int64_t> bytes(size, 1);
  launch_alltoall(own_end(), memory + sizeof(float), memory + sizeof(float) + size, bytes, bytes);
  return false;
}

namespace {

// The tensors of a Plan between their own memory and a buffer in which they travel as elements of some type.
BatchCopy between(const Plan& plan, std::span<Entry> entries, std::byte* buffer, DataType travels_as,
                  bool packs) {
  BatchCopy copy;
  copy.from_type = packs ? plan.dtype : travels_as;
  copy.to_type = packs ? travels_as : plan.dtype;
  const auto size = static_cast<std::int64_t>(size_of(plan.dtype)),
             there = static_cast<std::int64_t>(size_of(travels_as));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Submission& submission = entries[i].submission();
    std::byte* const memory = buffer + plan.tensors[i].offset / size * there;
    const std::int64_t elements = submission.input.elements();
    if (elements == 0) continue;
    copy.pieces.push_back(packs ? CopyPiece{submission.input.data, memory, elements}
                                : CopyPiece{memory, submission.output.data, elements});
  }
  return copy;
}

}  // namespace

void NcclWork::launch_reductions(const NcclEnd& end, NcclLane& lane) {
  reduction_ = reduction_of(end, plan_, travels_as());
  if (plan_.operation == Operation::reducescatter) {
    std::vector<std::int64_t> elements = rows_scattered();
    const std::int64_t row = row_element_count(entry().request().shape);
    for (std::int64_t& each : elements) each *= row;
    return launch_reducescatter(end, reduction_, entry().submission().input.data, output_.data, elements,
                                size_of(plan_.dtype));
  }
  std::vector<NcclRun> runs;
  if (in_window()) {
    runs = runs_in_window(lane);
  } else if (packs()) {
    if (narrows()) sent_as_ = plan_.compression;
    lane.queue().copy(between(plan_, entries_, lane.buffer(), travels_as(), true));
    const std::int64_t elements = plan_.buffer_bytes / static_cast<std::int64_t>(size_of(plan_.dtype));
    runs.push_back({lane.buffer(), lane.buffer(), elements});
  } else {
    for (Entry& each : entries_) {
      const Submission& submission = each.submission();
      runs.push_back({submission.input.data, submission.output.data, submission.input.elements()});
    }
  }
  launch_allreduce(end, reduction_, runs);
}

// Tensors that lie somewhere else between there and their slots, scaled where they come out.
BatchCopy NcclWork::window_copy(bool into) const {
  BatchCopy copy{plan_.dtype, plan_.dtype, into ? 1.0 : reduction_.rest, {}};
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Submission& submission = entries_[i].submission();
    const std::int64_t elements = submission.input.elements();
    if (elements == 0) continue;
    std::byte* const memory =
        group_.windows().at(*group_.windows().find(plan_.tensors[i].name(), submission.input.bytes()));
    const void* const from = into ? submission.input.data : memory;
    void* const to = into ? memory : submission.output.data;
    if (from != to || copy.factor != 1.0) copy.pieces.push_back({from, to, elements});
  }
  return copy;
}

// Neighbours there are one run, with the gaps between them.
std::vector<NcclRun> NcclWork::runs_in_window(NcclLane& lane) {
  const BatchCopy copy = window_copy(true);
  if (!copy.pieces.empty()) lane.queue().copy(copy);
  std::vector<NcclWindows::Spot> spots;
  for (const PlanTensor& tensor : plan_.tensors) {
    const auto bytes = static_cast<std::size_t>(bytes_of(*tensor.request));
    if (bytes > 0) spots.push_back(*group_.windows().find(tensor.name(), bytes));
  }
  std::ranges::sort(spots, {}, [](const auto& spot) { return std::pair(spot.window, spot.offset); });
  std::vector<NcclRun> runs;
  const auto size = static_cast<std::int64_t>(size_of(plan_.dtype));
  for (std::size_t first = 0, next = 0; first < spots.size(); first = next) {
    std::size_t end = spots[first].offset + spots[first].bytes;
    for (next = first + 1; next < spots.size() && spots[next].window == spots[first].window &&
                           spots[next].offset == HostBuffer::whole_lines(end);
         ++next) {
      end = spots[next].offset + spots[next].bytes;
    }
    std::byte* const begin = group_.windows().at(spots[first]);
    runs.push_back({begin, begin, static_cast<std::int64_t>(end - spots[first].offset) / size});
  }
  return runs;
}

// Moves a tensor to other memory if it lies in a window that NCCL knows, unless all ranks have it there for
// this Plan. NCCL leaves the outcome undefined if only some members pass memory that it knows. A tensor that
// fits uses the lane's buffer, which such a Plan does not need: then nothing can fail.
void NcclWork::keep_apart(Entry& entry, NcclLane& lane) {
  Submission& submission = entry.submission();
  const std::size_t bytes = submission.input.bytes();
  const bool known = group_.windows().registered_at(submission.input.data) ||
                     group_.windows().registered_at(submission.output.data);
  if (!known || bytes == 0) return;
  std::byte* apart = lane.buffer() + apart_bytes_;
  if (bytes <= lane.buffer_bytes() - apart_bytes_) {
    apart_bytes_ = std::min(apart_bytes_ + HostBuffer::whole_lines(bytes), lane.buffer_bytes());
  } else {
    apart = memory_for(entry.request(), {}, bytes);
  }
  lane.queue().copy(apart, submission.input.data, bytes);
  if (submission.output.data != nullptr)
    apart_.push_back({apart, submission.output.data, static_cast<std::int64_t>(bytes)});
  submission.input.data = apart;
  if (submission.output.data != nullptr) submission.output.data = apart;
}

// Memory on the device. If there is none the job ends: other ranks may have begun.
std::byte* NcclWork::memory_for(const Request& request, const ConstTensorView& values, std::size_t bytes) {
  try {
    return temporary(values, bytes);
  } catch (const WorkFailure& failure) {
    throw BackendError(Status::backend_error(fmt::format(
        "{}: {} on device {}, and the devices of other ranks may have begun; leave more memory free there, "
        "or set a larger RUEDA_FUSION_THRESHOLD, in whose buffer smaller tensors find room",
        title(request), failure.what, group_.device())));
  }
}

void NcclWork::launch_exchange(const NcclEnd& end) {
  const Submission& submission = entry().submission();
  const void* const from = submission.input.data;
  if (plan_.operation == Operation::broadcast) {
    const Rank root = plan_.members->index_of(plan_.root);
    return launch_broadcast(end, root == group_.index() ? from : submission.output.data,
                            submission.output.data, static_cast<std::int64_t>(submission.input.bytes()),
                            root);
  }
  if (plan_.operation == Operation::allgather)
    return launch_allgather(end, from, output_.data, in_bytes(received_));
  launch_alltoall(end, from, output_.data, in_bytes(sent_), in_bytes(received_));
}

std::vector<std::int64_t> NcclWork::in_bytes(std::vector<std::int64_t> rows) const {
  const std::int64_t row =
      row_element_count(entry().request().shape) * static_cast<std::int64_t>(size_of(plan_.dtype));
  for (std::int64_t& each : rows) each *= row;
  return rows;
}

// NCCL has given the device all of it: what it shared or computed is put where it belongs.
void NcclWork::settle_results(NcclLane& lane) {
  for (Entry& each : entries_) each.handle->numbers.takes_window = takes_window() || verdict_.shared;
  if (verdict_.shared) group_.windows().add(entry().submission().window, verdict_.registered);
  if (traits(plan_.operation).reduces) settle_reduction(lane);
  if (!apart_.empty()) lane.queue().copy({DataType::uint8, DataType::uint8, 1.0, apart_});
}

void NcclWork::settle_reduction(NcclLane& lane) {
  BatchCopy copy{plan_.dtype, plan_.dtype, reduction_.rest, {}};
  if (in_window()) {
    copy = window_copy(false);
  } else if (packs()) {
    copy = between(plan_, entries_, lane.buffer(), travels_as(), false);
    copy.factor = reduction_.rest;
  } else if (reduction_.rest != 1.0 && plan_.operation == Operation::reducescatter) {
    copy.pieces.push_back({output_.data, output_.data, output_.elements()});
  } else if (reduction_.rest != 1.0) {
    for (Entry& each : entries_) {
      void* const result = each.submission().output.data;
      copy.pieces.push_back({result, result, each.submission().output.elements()});
    }
  }
  std::erase_if(copy.pieces, [](const CopyPiece& piece) { return piece.elements == 0; });
  if (!copy.pieces.empty()) lane.queue().copy(copy);
  release(own_end(), reduction_);
}

}  // namespace rueda
