// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/process_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "frameworks/torch/c10d/arguments.h"
#include "frameworks/torch/c10d/operations/signature.h"
#include "frameworks/torch/c10d/operations/tensor_bytes.h"
#include "rueda/torch/c10d/process_group.h"

namespace rueda {
namespace {

using c10d::OpType;
using Works = ProcessGroup::Works;

// A contiguous tensor for the operation to write; its values then come into `output`.
at::Tensor room_of(const at::Tensor& output, GroupCall& call) {
  const at::Tensor room = contiguous_output(output);
  if (!room.is_same(output)) call.then([output, room] { output.copy_(room); }, {room});
  return room;
}

Submission moving_into(Operation operation, const at::Tensor& input, const at::Tensor& output,
                       GroupCall& call) {
  return moving(operation, input.contiguous(), room_of(output, call));
}

// Into several tensors, one after another.
Submission moving_into(Operation operation, const at::Tensor& input, const std::vector<at::Tensor>& outputs,
                       GroupCall& call) {
  at::Tensor room = room_for(outputs);
  call.then([outputs, room] { distribute_bytes(room, outputs); }, {room});
  return moving(operation, input, room);
}

std::shared_ptr<const std::vector<std::int64_t>> shared(std::vector<std::int64_t> splits) {
  return std::make_shared<const std::vector<std::int64_t>>(std::move(splits));
}

Submission allgather_of(const at::Tensor& output, const at::Tensor& input, int size) {
  check_same_type(input, output, "all_gather_into_tensor");
  TORCH_CHECK_VALUE(output.numel() == input.numel() * size,
                    "output tensor size must be equal to world_size times input tensor size");
  TORCH_CHECK_VALUE(output.is_contiguous(), "rueda: all_gather_into_tensor takes a contiguous output");
  Submission submission = moving(Operation::allgather, input.contiguous(), output);
  sign_sizes(submission.request, std::array{input.numel()});
  return submission;
}

}  // namespace

ProcessGroup::ProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, GroupNames names,
                           std::chrono::milliseconds timeout, const StartGroup& start)
    : GroupBackend(store, rank, size, std::move(names), timeout, start),
      monitored_barrier_(store_of_job(store, operations_.runtime()), rank, size,
                         [this] { return operations_.failure(); }) {}

ProcessGroup::~ProcessGroup() = default;

Works ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  check_root(options.rootRank, size_, "broadcast");
  GroupCall call = operations_.call(OpType::BROADCAST, options);
  call.outputs = tensors;
  call.show(tensors);
  const at::Tensor values = tensor.contiguous();
  if (!values.is_same(tensor) && options.rootRank != rank_)
    call.then([tensor, values] { copy_each_once(tensor, values); }, {values});
  Submission submission = moving(Operation::broadcast, values, values);
  submission.into_output = false;
  submission.request.root = static_cast<Rank>(options.rootRank);
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs, "all_gather");
  const Tensors& list = only_list(outputs, input, size_, "all_gather");
  for (const at::Tensor& each : list) check_same_type(input, each, "all_gather");
  check_size_of_own(list[static_cast<std::size_t>(rank_)], input, rank_, "all_gather");
  GroupCall call = operations_.call(OpType::ALLGATHER, options);
  call.show(inputs);
  call.outputs = list;
  Submission submission = moving_into(Operation::allgather, input.contiguous(), list, call);
  sign_sizes(submission.request, list);
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions& options) {
  check_together({input, output}, "all_gather_into_tensor");
  GroupCall call = operations_.call(OpType::_ALLGATHER_BASE, options);
  call.show({input});
  call.outputs = {output};
  Submission submission = allgather_of(output, input, size_);
  return operations_.begin(std::move(call), std::move(submission));
}

// Tensor number i of all ranks: `outputs` has a list for each rank.
Works ProcessGroup::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(size_),
                    "rueda: all_gather_coalesced takes a list of outputs for each rank");
  check_together(inputs, "all_gather_coalesced");
  GroupCall call = operations_.call(OpType::ALLGATHER_COALESCED, options);
  call.show(inputs);
  for (const Tensors& list : outputs) {
    TORCH_CHECK_VALUE(list.size() == inputs.size(), "rueda: all_gather_coalesced has ", inputs.size(),
                      " inputs and ", list.size(), " outputs of a rank");
    for (std::size_t i = 0; i < list.size(); ++i) {
      check_together({inputs[0], list[i]}, "all_gather_coalesced");
      check_same_type(inputs[i], list[i], "all_gather_coalesced");
    }
    call.outputs.insert(call.outputs.end(), list.begin(), list.end());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_size_of_own(outputs[static_cast<std::size_t>(rank_)][i], inputs[i], rank_, "all_gather_coalesced");
  Submission submission = moving_into(Operation::allgather, joined_bytes(inputs), call.outputs, call);
  sign_sizes(submission.request, call.outputs);
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  check_pairs(outputs, inputs, "all_gather_into_tensor_coalesced");
  GroupCall call = operations_.call(OpType::COALESCED, options);
  call.show(inputs);
  call.outputs = outputs;
  OperationOrder::Submissions group;
  for (std::size_t i = 0; i < inputs.size(); ++i) group.push_back(allgather_of(outputs[i], inputs[i], size_));
  return operations_.begin(std::move(call), std::move(group));
}

// Each rank sends all that it has to the root.
Works ProcessGroup::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const at::Tensor& input = only(inputs, "gather");
  check_root(options.rootRank, size_, "gather");
  const bool root = options.rootRank == rank_;
  TORCH_CHECK_VALUE(root || outputs.empty(), "rueda: gather takes outputs on the root only");
  GroupCall call = operations_.call(OpType::GATHER, options);
  call.show(inputs);
  if (root) {
    call.outputs = only_list(outputs, input, size_, "gather");
    for (const at::Tensor& each : call.outputs) check_same_type(input, each, "gather");
    check_size_of_own(call.outputs[static_cast<std::size_t>(rank_)], input, rank_, "gather");
  }
  const at::Tensor values = input.contiguous();
  Submission submission = root ? moving_into(Operation::gather, values, call.outputs, call)
                               : moving(Operation::gather, values, at::Tensor());
  if (root) submission.expected_splits = shared(moved_elements_of(call.outputs));
  submission.request.root = static_cast<Rank>(options.rootRank);
  return operations_.begin(std::move(call), std::move(submission));
}

// The root sends to each rank its part, and nobody else anything.
Works ProcessGroup::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  const at::Tensor& output = only(outputs, "scatter");
  check_root(options.rootRank, size_, "scatter");
  GroupCall call = operations_.call(OpType::SCATTER, options);
  call.outputs = outputs;
  std::vector<std::int64_t> splits;
  at::Tensor values = at::empty({0}, output.options());
  if (options.rootRank == rank_) {
    const Tensors& list = only_list(inputs, output, size_, "scatter");
    for (const at::Tensor& each : list) check_same_type(each, output, "scatter");
    check_size_of_own(list[static_cast<std::size_t>(rank_)], output, rank_, "scatter");
    call.show(list);
    values = joined_bytes(list);
    splits = moved_elements_of(list);
  } else {
    TORCH_CHECK_VALUE(inputs.empty(), "rueda: scatter takes inputs on the root only");
  }
  Submission submission = moving_into(Operation::scatter, values, output, call);
  submission.request.root = static_cast<Rank>(options.rootRank);
  submission.splits = std::move(splits);
  return operations_.begin(std::move(call), std::move(submission));
}

namespace {

// How many elements go to each rank: by rows of the first dimension.
std::vector<std::int64_t> elements_of_rows(const at::Tensor& tensor, const std::vector<std::int64_t>& rows,
                                           int size) {
  const std::int64_t all = moved_elements(tensor);
  if (rows.empty()) {
    TORCH_CHECK_VALUE(tensor.dim() > 0 && tensor.size(0) % size == 0,
                      "Tensor's dim 0 does not divide equally across group size");
    return std::vector<std::int64_t>(static_cast<std::size_t>(size), all / size);
  }
  TORCH_CHECK_VALUE(rows.size() == static_cast<std::size_t>(size),
                    "Number of tensor splits not equal to group size");
  std::int64_t sum = 0;
  for (const std::int64_t each : rows) sum += each;
  TORCH_CHECK_VALUE(tensor.dim() > 0 && sum == tensor.size(0), "Split sizes doesn't match total dim 0 size");
  std::vector<std::int64_t> elements = rows;
  const std::int64_t of_row = tensor.size(0) == 0 ? 0 : all / tensor.size(0);
  for (std::int64_t& each : elements) each *= of_row;
  return elements;
}

}  // namespace

Works ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                  std::vector<std::int64_t>& output_splits,
                                  std::vector<std::int64_t>& input_splits,
                                  const c10d::AllToAllOptions& options) {
  check_together({input, output}, "all_to_all_single");
  check_same_type(input, output, "all_to_all_single");
  GroupCall call = operations_.call(OpType::ALLTOALL_BASE, options);
  call.show({input});
  call.outputs = {output};
  Submission submission = moving_into(Operation::alltoall, input, output, call);
  submission.splits = elements_of_rows(input, input_splits, size_);
  submission.expected_splits = shared(elements_of_rows(output, output_splits, size_));
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const auto ranks = static_cast<std::size_t>(size_);
  TORCH_CHECK_VALUE(inputs.size() == ranks && outputs.size() == ranks, "rueda: all_to_all takes ", size_,
                    " inputs and outputs, one for each rank");
  GroupCall call = operations_.call(OpType::ALLTOALL, options);
  call.show(inputs);
  call.outputs = outputs;
  for (std::size_t i = 0; i < ranks; ++i) {
    check_together({inputs[0], inputs[i]}, "all_to_all");
    check_together({inputs[0], outputs[i]}, "all_to_all");
    check_same_type(inputs[0], inputs[i], "all_to_all");
    check_same_type(inputs[0], outputs[i], "all_to_all");
  }
  Submission submission = moving_into(Operation::alltoall, joined_bytes(inputs), outputs, call);
  submission.splits = moved_elements_of(inputs);
  submission.expected_splits = shared(moved_elements_of(outputs));
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::send(Tensors& tensors, int to, int tag) {
  const at::Tensor& tensor = only(tensors, "send");
  check_tag(tag, "send");
  GroupCall call = operations_.call(OpType::SEND);
  call.outputs = tensors;
  call.show(tensors);
  call.destination = to;
  return operations_.send(std::move(call), tensor.contiguous(), to, tag);
}

Works ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  const at::Tensor& tensor = only(tensors, "recv");
  check_tag(tag, "recv");
  GroupCall call = operations_.call(OpType::RECV);
  call.outputs = tensors;
  call.show(tensors);
  call.source = from;
  const at::Tensor room = room_of(tensor, call);
  return operations_.receive(std::move(call), room, from, tag);
}

Works ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& tensor = only(tensors, "recv");
  check_tag(tag, "recv");
  GroupCall call = operations_.call(OpType::RECVANYSOURCE);
  call.outputs = tensors;
  call.show(tensors);
  if (size_ == 2) call.source = 1 - rank_;
  const at::Tensor room = room_of(tensor, call);
  return operations_.receive_from_any(std::move(call), room, tag);
}

// c10d does not say if the program means the host or a device, as one backend serves both. So it is a device
// that the program names, or else that of the operation before, which is the same kind on all ranks.
std::optional<at::Device> ProcessGroup::device_of_barrier(const c10d::BarrierOptions& options) const {
  const bool any =
      c10::impl::hasDeviceGuardImpl(at::kCUDA) && c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() > 0;
  if (!any) return std::nullopt;
  if (options.device && options.device->is_cuda()) return options.device;
  if (!options.device_ids.empty())
    return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(options.device_ids[0]));
  if (getBoundDeviceId() && getBoundDeviceId()->is_cuda()) return getBoundDeviceId();
  return operations_.last_device();
}

Works ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  GroupCall call = operations_.call(OpType::BARRIER, options);
  if (const std::optional<at::Device> device = device_of_barrier(options)) {
    const at::Tensor one = at::zeros({1}, at::TensorOptions(*device).dtype(at::kByte));
    Submission sum = moving(Operation::allreduce, one, one);
    sum.into_output = false;
    return operations_.begin(std::move(call), std::move(sum));
  }
  Submission submission;
  submission.request.operation = Operation::barrier;
  submission.request.dtype = submission.input.dtype = DataType::uint8;
  submission.request.shape = submission.input.shape = {0};
  return operations_.begin(std::move(call), std::move(submission));
}

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool names_all) {
  const bool given = options.timeout >= std::chrono::milliseconds::zero();
  monitored_barrier_.wait(given ? options.timeout : operations_.timeout(), names_all);
}

c10::intrusive_ptr<c10d::Backend> process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                int size, std::chrono::milliseconds timeout,
                                                const std::string& name) {
  return make_process_group(store, rank, size, GroupNames{"rueda", name}, timeout);
}

c10::intrusive_ptr<c10d::Backend> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                     int size, GroupNames names,
                                                     std::chrono::milliseconds timeout) {
  return c10::make_intrusive<ProcessGroup>(store, rank, size, std::move(names), timeout);
}

}  // namespace rueda
