// SPDX-License-Identifier: Apache-2.0
// The reductions of a ProcessGroup.
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <memory>
#include <numeric>
#include <utility>

#include "core/submission_arguments.h"
#include "frameworks/torch/c10d/arguments.h"
#include "frameworks/torch/c10d/operations/reductions.h"
#include "frameworks/torch/c10d/operations/tensor_bytes.h"
#include "frameworks/torch/c10d/process_group.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

using c10d::OpType;
using Works = ProcessGroup::Works;

Submission reducing(Operation operation, const at::Tensor& input, const at::Tensor& output,
                    const c10d::ReduceOp& op) {
  Submission submission = submission_for(operation, "", std::make_shared<OperationTensors>(input, output));
  set_reduction(submission.request, reduction_of(op));
  submission.into_output = operation == Operation::reducescatter;
  return submission;
}

// Appends `next` to the functions that finish the call.
void then(GroupCall& call, std::function<void()> next) {
  if (!call.finish) {
    call.finish = std::move(next);
    return;
  }
  call.finish = [first = std::move(call.finish), next = std::move(next)] {
    first();
    next();
  };
}

// `result` becomes the reduction of `input`; they may be one tensor.
Submission allreduce_of(const at::Tensor& input, const at::Tensor& result, const c10d::ReduceOp& op, int size,
                        GroupCall& call) {
  if (is_bitwise(op)) {
    check_bitwise(input);
    const at::Tensor all = at::empty({size * input.numel()}, input.options());
    then(call, [result, all, size, op] { bitwise_into(result, all, size, op); });
    return moving(Operation::allgather, input.contiguous(), all);
  }
  const at::Tensor values = reducible(input, op);
  if (!is_reducible_in_place(input, op)) {
    then(call, [result, values, op] { restore(result, values, op); });
    return reducing(Operation::allreduce, values, values, op);
  }
  const at::Tensor target = result.is_same(input) ? values : reducible(result, op);
  return reducing(Operation::allreduce, values, target, op);
}

// `output` becomes this rank's part of the reduction of `input`, of which all ranks have equal parts.
Submission reduce_scatter_of(const at::Tensor& input, const at::Tensor& output, const c10d::ReduceOp& op,
                             int rank, int size, GroupCall& call) {
  check_same_type(input, output, "reduce_scatter");
  TORCH_CHECK_VALUE(input.numel() == output.numel() * size,
                    "input tensor must be the same size as output size times world size");
  if (is_bitwise(op)) {
    const at::Tensor whole = at::empty({input.numel()}, input.options());
    Submission submission = allreduce_of(input.contiguous().view({-1}), whole, op, size, call);
    then(call, [whole, output, rank] {
      output.copy_(whole.narrow(0, rank * output.numel(), output.numel()).view(output.sizes()));
    });
    return submission;
  }
  const at::Tensor values = reducible(input.contiguous(), op).reshape({-1});
  if (output.is_contiguous() && is_reducible_in_place(output, op))
    return reducing(Operation::reducescatter, values, reducible(output, op).view({-1}), op);
  const at::Tensor part = at::empty({values.numel() / size}, values.options());
  const bool complex = output.is_complex();
  then(call, [output, part, op, complex] {
    std::vector<std::int64_t> sizes = output.sizes().vec();
    if (complex) sizes.push_back(2);
    restore(output, part.view(sizes), op);
  });
  return reducing(Operation::reducescatter, values, part, op);
}

bool equal_in_size(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& each : tensors) {
    if (each.numel() != tensors[0].numel()) return false;
  }
  return true;
}

}  // namespace

Works ProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors[0].defined() && tensors[0].layout() == at::kSparse)
    return allreduce_sparse(tensors, options);
  const at::Tensor& tensor = only(tensors, "all_reduce");
  GroupCall call = operations_.call(OpType::ALLREDUCE, options);
  call.outputs = tensors;
  call.show(tensors);
  Submission submission = allreduce_of(tensor, tensor, options.reduceOp, size_, call);
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "rueda: all_reduce_coalesced takes one tensor at least");
  GroupCall call = operations_.call(OpType::ALLREDUCE_COALESCED, options);
  call.outputs = tensors;
  call.show(tensors);
  OperationOrder::Submissions group;
  for (const at::Tensor& tensor : tensors) {
    check_on_host(tensor, "all_reduce_coalesced");
    group.push_back(allreduce_of(tensor, tensor, options.reduceOp, size_, call));
  }
  return operations_.begin(std::move(call), std::move(group));
}

namespace {

// On the root `tensor` becomes the reduction of the tensors of all; the others' stay as they are.
Submission reduce_of(const at::Tensor& tensor, const c10d::ReduceOptions& options, bool is_root, int size,
                     GroupCall& call) {
  const c10d::ReduceOp& op = options.reduceOp;
  if (is_bitwise(op)) return allreduce_of(tensor, is_root ? tensor : at::empty_like(tensor), op, size, call);
  const at::Tensor values = reducible(tensor, op);
  if (is_root && !is_reducible_in_place(tensor, op))
    then(call, [tensor, values, op] { restore(tensor, values, op); });
  Submission submission = reducing(Operation::reduce, values, is_root ? values : at::Tensor(), op);
  submission.request.root = static_cast<Rank>(options.rootRank);
  return submission;
}

}  // namespace

Works ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "reduce");
  check_root(options.rootRank, size_, "reduce");
  GroupCall call = operations_.call(OpType::REDUCE, options);
  call.outputs = tensors;
  call.show(tensors);
  Submission submission = reduce_of(tensor, options, options.rootRank == rank_, size_, call);
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                         const c10d::ReduceScatterOptions& options) {
  check_on_host(input, "reduce_scatter_tensor");
  check_on_host(output, "reduce_scatter_tensor");
  GroupCall call = operations_.call(OpType::_REDUCE_SCATTER_BASE, options);
  call.show({input});
  call.outputs = {output};
  Submission submission = reduce_scatter_of(input, output, options.reduceOp, rank_, size_, call);
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                    const c10d::ReduceScatterOptions& options) {
  check_pairs(outputs, inputs, "reduce_scatter_tensor_coalesced");
  GroupCall call = operations_.call(OpType::COALESCED, options);
  call.show(inputs);
  call.outputs = outputs;
  OperationOrder::Submissions group;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    group.push_back(reduce_scatter_of(inputs[i], outputs[i], options.reduceOp, rank_, size_, call));
  return operations_.begin(std::move(call), std::move(group));
}

// Parts may differ in size: then all ranks reduce all, and each keeps its part.
Works ProcessGroup::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                   const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  const Tensors& list = only_list(inputs, size_, "reduce_scatter");
  const auto own = static_cast<std::size_t>(rank_);
  TORCH_CHECK_VALUE(list[own].numel() == output.numel(), "rueda: reduce_scatter has an output of ",
                    output.numel(), " elements, and this rank's input has ", list[own].numel());
  GroupCall call = operations_.call(OpType::REDUCE_SCATTER, options);
  call.show(list);
  call.outputs = outputs;
  Tensors flat;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    check_same_type(list[i], output, "reduce_scatter");
    flat.push_back(list[i].reshape({-1}));
    if (i < own) before += list[i].numel();
  }
  const at::Tensor all = at::cat(flat);
  if (equal_in_size(list)) {
    Submission submission = reduce_scatter_of(all, output, options.reduceOp, rank_, size_, call);
    return operations_.begin(std::move(call), std::move(submission));
  }
  Submission submission = allreduce_of(all, all, options.reduceOp, size_, call);
  then(call,
       [all, output, before] { output.copy_(all.narrow(0, before, output.numel()).view(output.sizes())); });
  return operations_.begin(std::move(call), std::move(submission));
}

namespace {

// Purpose: a sparse tensor's parts as they come from all ranks. Shared by the Submissions and the Work.
struct GatheredParts {
  at::Tensor indices;  // a row for each element
  at::Tensor values;
};

Submission gathering(const at::Tensor& rows, at::Tensor& result,
                     const std::shared_ptr<GatheredParts>& parts) {
  Submission submission =
      submission_for(Operation::allgather, "", std::make_shared<OperationTensors>(rows, at::Tensor()));
  submission.allocate = [parts, &result](DataType dtype, const Shape& shape) {
    result = at::empty(shape, at::TensorOptions(scalar_type_for(dtype)));
    return TensorView{result.mutable_data_ptr(), dtype, shape, {}};
  };
  return submission;
}

}  // namespace

// The elements of all ranks, which are added up where they have one index.
Works ProcessGroup::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK_VALUE(tensors.size() == 1 && tensors[0].layout() == at::kSparse && tensors[0].device().is_cpu(),
                    "rueda: all_reduce takes one sparse COO tensor of the host");
  TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM,
                    "rueda: all_reduce of sparse tensors has the reduction SUM only");
  const at::Tensor tensor = tensors[0];
  const at::Tensor own = tensor.coalesce();
  GroupCall call = operations_.call(OpType::_ALLREDUCE_SPARSE, options);
  call.outputs = tensors;
  call.show(tensors);
  auto parts = std::make_shared<GatheredParts>();
  const bool complex = tensor.is_complex();
  const at::Tensor values = complex ? at::view_as_real(own.values()) : own.values();
  OperationOrder::Submissions group;
  group.push_back(gathering(own.indices().t().contiguous(), parts->indices, parts));
  group.push_back(gathering(values.contiguous(), parts->values, parts));
  call.finish = [tensor, parts, complex] {
    const at::Tensor sums = complex ? at::view_as_complex(parts->values) : parts->values;
    tensor.copy_(
        at::_sparse_coo_tensor_unsafe(parts->indices.t(), sums, tensor.sizes(), tensor.options()).coalesce());
  };
  return operations_.begin(std::move(call), std::move(group));
}

}  // namespace rueda
