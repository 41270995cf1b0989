// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/collectives/operations.h"

#include <c10/core/GradMode.h>

#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "core/observe/training/training_wait.h"
#include "core/submission_arguments.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

using Tensors = std::shared_ptr<OperationTensors>;

// The tensors of an operation that finds its own size, or that writes none of our tensors.
Tensors reads(const at::Tensor& tensor) { return std::make_shared<OperationTensors>(tensor, at::Tensor()); }

Tensors in_place(const at::Tensor& tensor) { return std::make_shared<OperationTensors>(tensor, tensor); }

Tensors into_new(const at::Tensor& tensor, const std::string& name) {
  check_movable(tensor, name);  // refuses also a tensor that cannot be allocated
  at::NoGradGuard no_grad;
  return std::make_shared<OperationTensors>(tensor, new_output_like(tensor), true);
}

TensorHandle submit(const Scope& scope, Submission&& submission, Tensors tensors) {
  set_scope(submission, scope);
  // Looked at before: an output that the operation makes itself is the background thread's from submission
  // on.
  const bool changes_its_input = tensors->output.defined() && tensors->output.is_same(tensors->input);
  Handle handle = scope.runtime().submit(std::move(submission));
  if (changes_its_input) mark_changed(tensors->input);
  return {std::move(handle), std::move(tensors)};
}

TensorHandle submit_reduction(const Scope& scope, Operation operation, std::string name,
                              const Reduction& reduction, Tensors tensors) {
  Submission submission = submission_for(operation, std::move(name), tensors);
  set_reduction(submission.request, reduction);
  return submit(scope, std::move(submission), std::move(tensors));
}

TensorHandle submit_broadcast(const Scope& scope, std::string name, Rank root, Tensors tensors) {
  Submission submission = submission_for(Operation::broadcast, std::move(name), tensors);
  submission.request.root = root;
  return submit(scope, std::move(submission), std::move(tensors));
}

// The result is the root's. On devices it passes through memory of the others, too.
TensorHandle submit_reduce(const Scope& scope, std::string name, Rank root, const Reduction& reduction,
                           const at::Tensor& tensor, bool changes_it) {
  const bool is_root = scope.runtime().topology().rank == root;
  if (changes_it) check_can_be_written(tensor, name);  // on all ranks: they count their calls alike
  Tensors moved = is_root && changes_it         ? in_place(tensor)
                  : is_root || tensor.is_cuda() ? into_new(tensor, name)
                                                : reads(tensor);
  Submission submission = submission_for(Operation::reduce, std::move(name), moved);
  submission.request.root = root;
  set_reduction(submission.request, reduction);
  return submit(scope, std::move(submission), is_root ? std::move(moved) : reads(tensor));
}

// A message is a broadcast in place.
TensorHandle submit_message(const Scope& scope, MessagePair pair, std::string name,
                            const at::Tensor& tensor) {
  const bool receives = pair.destination == scope.runtime().topology().rank;
  const Scope messages = scope_of_messages(scope, name, pair);
  receives ? check_can_be_written(tensor, name) : check_movable(tensor, name);
  const bool on_device = tensor.is_cuda();
  // On a device the values of the sender may be written once more, so later work there waits for it.
  Tensors tensors = receives || on_device ? in_place(receives ? tensor : tensor.contiguous()) : reads(tensor);
  Submission submission = submission_for(Operation::message, std::move(name), tensors);
  submission.request.root = pair.source;
  if (receives) return submit(messages, std::move(submission), std::move(tensors));
  if (!on_device) submission.output = unwritten(submission.input);
  submission.allocate = nullptr;
  set_scope(submission, messages);
  return {scope.runtime().submit(std::move(submission)), std::move(tensors)};
}

}  // namespace

at::Tensor TensorHandle::wait() const {
  throw_if_error(wait_status());
  return output();
}

Status TensorHandle::wait_status() const {
  std::optional<TrainingWait> waiting;
  if (!handle_.done()) waiting.emplace();
  Status status = handle_.wait_status();
  waiting.reset();
  if (!status.ok()) return status;
  hold_back_current_stream(handle_, tensors_->output);
  if (tensors_->made_output) keep_for_current_stream(tensors_->output.storage());
  return status;
}

const at::Tensor& TensorHandle::output() const { return tensors_->output; }

TensorHandle allreduce_async(const at::Tensor& tensor, std::string name, Reduction reduction, Scope scope) {
  Tensors tensors = into_new(tensor, name);
  return submit_reduction(scope, Operation::allreduce, std::move(name), reduction, std::move(tensors));
}

at::Tensor allreduce(const at::Tensor& tensor, std::string name, Reduction reduction, Scope scope) {
  return allreduce_async(tensor, std::move(name), reduction, scope.awaited()).wait();
}

TensorHandle allreduce_async_(const at::Tensor& tensor, std::string name, Reduction reduction, Scope scope) {
  return submit_reduction(scope, Operation::allreduce, std::move(name), reduction, in_place(tensor));
}

void allreduce_(const at::Tensor& tensor, std::string name, Reduction reduction, Scope scope) {
  allreduce_async_(tensor, std::move(name), reduction, scope.awaited()).wait();
}

TensorHandle allgather_async(const at::Tensor& tensor, std::string name, Scope scope) {
  Tensors tensors = reads(tensor);
  return submit(scope, submission_for(Operation::allgather, std::move(name), tensors), tensors);
}

at::Tensor allgather(const at::Tensor& tensor, std::string name, Scope scope) {
  return allgather_async(tensor, std::move(name), scope.awaited()).wait();
}

TensorHandle broadcast_async(const at::Tensor& tensor, Rank root, std::string name, Scope scope) {
  Tensors tensors = into_new(tensor, name);
  return submit_broadcast(scope, std::move(name), root, std::move(tensors));
}

at::Tensor broadcast(const at::Tensor& tensor, Rank root, std::string name, Scope scope) {
  return broadcast_async(tensor, root, std::move(name), scope.awaited()).wait();
}

TensorHandle broadcast_async_(const at::Tensor& tensor, Rank root, std::string name, Scope scope) {
  return submit_broadcast(scope, std::move(name), root, in_place(tensor));
}

void broadcast_(const at::Tensor& tensor, Rank root, std::string name, Scope scope) {
  broadcast_async_(tensor, root, std::move(name), scope.awaited()).wait();
}

TensorHandle send_async(const at::Tensor& tensor, Rank destination, std::string name, Scope scope) {
  return submit_message(scope, {scope.runtime().topology().rank, destination}, std::move(name), tensor);
}

void send(const at::Tensor& tensor, Rank destination, std::string name, Scope scope) {
  send_async(tensor, destination, std::move(name), scope.awaited()).wait();
}

TensorHandle recv_async(const at::Tensor& tensor, Rank source, std::string name, Scope scope) {
  return submit_message(scope, {source, scope.runtime().topology().rank}, std::move(name), tensor);
}

void recv(const at::Tensor& tensor, Rank source, std::string name, Scope scope) {
  recv_async(tensor, source, std::move(name), scope.awaited()).wait();
}

TensorHandle alltoall_async(const at::Tensor& tensor, std::vector<std::int64_t> splits, std::string name,
                            Scope scope) {
  Tensors tensors = reads(tensor);
  Submission submission = submission_for(Operation::alltoall, std::move(name), tensors);
  submission.splits = std::move(splits);
  return submit(scope, std::move(submission), std::move(tensors));
}

AlltoallResult alltoall(const at::Tensor& tensor, std::vector<std::int64_t> splits, std::string name,
                        Scope scope) {
  const TensorHandle handle = alltoall_async(tensor, std::move(splits), std::move(name), scope.awaited());
  at::Tensor output = handle.wait();
  return {std::move(output), handle.received_splits()};
}

TensorHandle reduce_async(const at::Tensor& tensor, Rank root, std::string name, Reduction reduction,
                          Scope scope) {
  return submit_reduce(scope, std::move(name), root, reduction, tensor, false);
}

at::Tensor reduce(const at::Tensor& tensor, Rank root, std::string name, Reduction reduction, Scope scope) {
  return reduce_async(tensor, root, std::move(name), reduction, scope.awaited()).wait();
}

TensorHandle reduce_async_(const at::Tensor& tensor, Rank root, std::string name, Reduction reduction,
                           Scope scope) {
  return submit_reduce(scope, std::move(name), root, reduction, tensor, true);
}

void reduce_(const at::Tensor& tensor, Rank root, std::string name, Reduction reduction, Scope scope) {
  reduce_async_(tensor, root, std::move(name), reduction, scope.awaited()).wait();
}

TensorHandle gather_async(const at::Tensor& tensor, Rank root, std::string name, Scope scope) {
  Tensors tensors = reads(tensor);
  Submission submission = submission_for(Operation::gather, std::move(name), tensors);
  submission.request.root = root;
  return submit(scope, std::move(submission), std::move(tensors));
}

at::Tensor gather(const at::Tensor& tensor, Rank root, std::string name, Scope scope) {
  return gather_async(tensor, root, std::move(name), scope.awaited()).wait();
}

TensorHandle scatter_async(const at::Tensor& tensor, Rank root, std::vector<std::int64_t> splits,
                           std::string name, Scope scope) {
  Tensors tensors = reads(tensor);
  Submission submission = submission_for(Operation::scatter, std::move(name), tensors);
  submission.request.root = root;
  submission.splits = std::move(splits);
  return submit(scope, std::move(submission), std::move(tensors));
}

at::Tensor scatter(const at::Tensor& tensor, Rank root, std::vector<std::int64_t> splits, std::string name,
                   Scope scope) {
  return scatter_async(tensor, root, std::move(splits), std::move(name), scope.awaited()).wait();
}

TensorHandle reducescatter_async(const at::Tensor& tensor, std::string name, Reduction reduction,
                                 Scope scope) {
  return submit_reduction(scope, Operation::reducescatter, std::move(name), reduction, reads(tensor));
}

at::Tensor reducescatter(const at::Tensor& tensor, std::string name, Reduction reduction, Scope scope) {
  return reducescatter_async(tensor, std::move(name), reduction, scope.awaited()).wait();
}

void barrier(Scope scope) {
  const TrainingWait waiting;
  barrier_async(scope.awaited()).wait();
}

}  // namespace rueda
