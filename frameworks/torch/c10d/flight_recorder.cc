// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/flight_recorder.h"

#include <c10/util/ApproximateClock.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <torch/csrc/distributed/c10d/FlightRecorderDetail.hpp>
#include <utility>

namespace rueda {

// Torch's recorder would ask events for the end of an operation; here the ring notes it.
struct EventOfNothing {
  static bool query() { return false; }
};

namespace {

using TorchRecorder = c10d::FlightRecorder<EventOfNothing>;
using RecordedEntry = TorchRecorder::Entry;

// In the order of c10d::OpType. torchfrtrace takes these names only, and only of NCCL.
constexpr std::array<std::string_view, 19> kTorchNames{"broadcast",
                                                       "all_reduce",
                                                       "allreduce_coalesced",
                                                       "reduce",
                                                       "all_gather",
                                                       "_all_gather_base",
                                                       "ALLGATHER_coalesced",
                                                       "gather",
                                                       "scatter",
                                                       "reduce_scatter",
                                                       "all_to_all",
                                                       "all_to_all",
                                                       "send",
                                                       "recv",
                                                       "recv",
                                                       "all_reduce_barrier",
                                                       "_reduce_scatter_base",
                                                       "coalesced",
                                                       "all_reduce"};

bool named_by_user(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_message(const RecordedCall& call) { return call.peer >= 0; }

// "nccl:all_reduce", "nccl:send 0->1", "nccl:recv 1<-0".
std::string torch_name_of(const RecordedCall& call, int own) {
  const std::string_view name = kTorchNames.at(static_cast<std::size_t>(call.type));
  if (!is_message(call)) return fmt::format("nccl:{}", name);
  return fmt::format("nccl:{} {}{}{}", name, own, call.type == c10d::OpType::SEND ? "->" : "<-", call.peer);
}

// A list of a tensor for each rank counts as one tensor if NCCL moves it as one.
bool is_flat(const RecordedCall& call, const std::vector<at::Tensor>& tensors) {
  const bool gathers = call.type == c10d::OpType::ALLGATHER && &tensors == &call.outputs;
  const bool scatters = call.type == c10d::OpType::REDUCE_SCATTER && &tensors == &call.inputs;
  if ((!gathers && !scatters) || tensors.empty()) return false;
  return std::ranges::all_of(tensors,
                             [&](const at::Tensor& each) { return each.sizes() == tensors.front().sizes(); });
}

void add_shapes(RecordedEntry& entry, const RecordedCall& call, const std::vector<at::Tensor>& tensors,
                c10::SmallVector<std::int64_t, 4>& dimensions, std::vector<c10::ScalarType>& types) {
  const bool flat = is_flat(call, tensors);
  for (const at::Tensor& each : tensors) {
    if (!each.defined()) continue;
    types.push_back(each.scalar_type());
    dimensions.push_back(each.dim() + (flat ? 1 : 0));
    if (flat) entry.sizes_.push_back(static_cast<std::int64_t>(tensors.size()));
    entry.sizes_.append(each.sizes().begin(), each.sizes().end());
    if (flat) return;
  }
}

}  // namespace

struct FlightRecorder::Ring {
  struct Group {
    std::string name;
    std::vector<std::uint64_t> ranks;
    int own = 0;
    std::shared_ptr<c10d::ProcessGroupStatus> status;
  };
  struct Slot {
    RecordedEntry entry{};
    PendingOperations operations;  // until the end
  };

  std::vector<Group> groups;
  std::vector<Slot> slots;  // operation number n is in slot n % most
  std::uint64_t noted = 0;

  [[nodiscard]] PendingOperations end(Slot& slot, bool well) {
    RecordedEntry& entry = slot.entry;
    entry.retired_ = true;
    if (well) {
      entry.time_discovered_started_ = entry.time_discovered_completed_ = c10::getTime();
      std::int64_t& last = groups[entry.pg_id_].status->lastCompletedSeq;
      last = std::max(last, static_cast<std::int64_t>(entry.collective_seq_id_));
    }
    return std::exchange(slot.operations, {});
  }

  // Copies the ring into a recorder of torch's, the oldest first.
  std::unique_ptr<TorchRecorder> as_torchs() const {
    auto recorder = std::make_unique<TorchRecorder>();
    const std::uint64_t first = noted - slots.size();
    for (std::uint64_t number = first; number < noted; ++number)
      recorder->entries_.push_back(slots[number % slots.size()].entry);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      recorder->all_pg_status_[i] = std::make_shared<c10d::ProcessGroupStatus>(*groups[i].status);
      recorder->pg_name_to_ranks_[{groups[i].name, groups[i].name}] = groups[i].ranks;
    }
    recorder->comm_lib_version_ = "rueda";
    return recorder;
  }
};

FlightRecorder& FlightRecorder::of_process() {
  // Never destroyed: it holds frames of Python, which may have ended before.
  static auto& recorder = *new FlightRecorder;
  return recorder;
}

FlightRecorder::FlightRecorder()
    : most_(static_cast<std::size_t>(
          std::max(0, c10d::getCvarInt({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, 0)))),
      with_stacks_(c10d::getCvarBool({"TORCH_INCLUDE_STACK_TRACE"}, true)),
      ring_(std::make_unique<Ring>()) {}

FlightRecorder::~FlightRecorder() = default;

std::size_t FlightRecorder::add_group(const std::string& name, std::vector<std::uint64_t> ranks, int own) {
  if (!is_on()) return 0;
  const std::lock_guard lock(mutex_);
  ring_->groups.push_back({name, std::move(ranks), own, std::make_shared<c10d::ProcessGroupStatus>()});
  return ring_->groups.size() - 1;
}

std::uint64_t FlightRecorder::note(std::size_t group, const RecordedCall& call,
                                   const PendingOperations& operations) {
  Ring::Slot slot;
  RecordedEntry& entry = slot.entry;
  if (with_stacks_)
    entry.traceback_ = torch::CapturedTraceback::gather(true, true, false);  // takes Python's lock
  slot.operations = operations;
  entry.pg_id_ = group;
  entry.isP2P_ = is_message(call);
  entry.collective_seq_id_ = call.number;
  entry.p2p_seq_id_ = entry.isP2P_ ? call.number : 0;
  entry.op_id_ = call.number;
  entry.time_created_ = c10::getTime();
  entry.timeout_ms_ = call.timeout.count();
  entry.thread_id_ = std::this_thread::get_id();
  add_shapes(entry, call, call.inputs, entry.input_dims_, entry.input_dtypes_);
  add_shapes(entry, call, call.outputs, entry.output_dims_, entry.output_dtypes_);

  const std::lock_guard lock(mutex_);
  const Ring::Group& its = ring_->groups[group];
  entry.pg_name_ = {its.name, its.name};
  entry.profiling_name_ = torch_name_of(call, its.own);
  entry.id_ = ring_->noted;
  its.status->lastEnqueuedSeq = its.status->lastStartedSeq =
      std::max(its.status->lastEnqueuedSeq, static_cast<std::int64_t>(call.number));
  if (ring_->slots.size() < most_) {
    ring_->slots.push_back(std::move(slot));
  } else {
    std::swap(ring_->slots[ring_->noted % most_], slot);  // the old slot is destroyed without the mutex
  }
  return ring_->noted++;
}

void FlightRecorder::note_end(std::uint64_t number, bool well) {
  PendingOperations ended;
  const std::lock_guard lock(mutex_);
  Ring::Slot& slot = ring_->slots[number % most_];
  if (slot.entry.id_ == number && !slot.operations.empty()) ended = ring_->end(slot, well);
}

// Notes the ends of operations for which nobody has waited.
void FlightRecorder::note_ends() {
  std::vector<std::pair<std::uint64_t, PendingOperations>> ended;
  {
    const std::lock_guard lock(mutex_);
    for (const Ring::Slot& slot : ring_->slots) {
      if (!slot.operations.empty() && std::ranges::all_of(slot.operations, &PendingOperation::done))
        ended.emplace_back(slot.entry.id_, slot.operations);
    }
  }
  for (const auto& [number, operations] : ended) {
    note_end(number, std::ranges::all_of(operations,
                                         [](const PendingOperation& each) { return each.status().ok(); }));
  }
}

template <class Dump>
std::string FlightRecorder::dumped(Dump dump) {
  note_ends();
  std::unique_lock lock(mutex_);
  const auto recorder = ring_->as_torchs();
  lock.unlock();
  return dump(*recorder);
}

std::string FlightRecorder::pickled() {
  return dumped(
      [this](TorchRecorder& recorder) { return recorder.dump(std::nullopt, true, with_stacks_, false); });
}

std::string FlightRecorder::json() {
  return dumped([](TorchRecorder& recorder) { return recorder.dump_json(std::nullopt, true, false); });
}

void FlightRecorder::write() {
  int rank = 0;
  {
    const std::lock_guard lock(mutex_);
    if (ring_->groups.empty()) return;
    const Ring::Group& first = ring_->groups.front();
    rank = static_cast<int>(first.ranks.at(static_cast<std::size_t>(first.own)));
  }
  c10d::DebugInfoWriter::getWriter(rank).write(pickled());
}

void FlightRecorder::note_failure() {
  const bool named =
      named_by_user("TORCH_FR_DUMP_TEMP_FILE") || named_by_user("TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
  if (is_on() && named && !has_written_.exchange(true)) write();
}

}  // namespace rueda
