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
#include "frameworks/torch/c10d/operations/signature.h"
#include "frameworks/torch/c10d/operations/tensor_bytes.h"
#include "frameworks/torch/c10d/process_group.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

using c10d::OpType;
using Works = ProcessGroup::Works;

// `type`: the program's.
Submission reducing(Operation operation, const at::Tensor& input, const at::Tensor& output,
                    const c10d::ReduceOp& op, at::ScalarType type) {
  Submission submission = submission_for(operation, "", std::make_shared<OperationTensors>(input, output));
  set_reduction(submission.request, reduction_of(op));
  sign(submission.request, type);
  sign(submission.request, op);
  submission.into_output = operation == Operation::reducescatter;
  return submission;
}

// Whether core reduces the tensor where it lies: on a device it has no gaps.
bool reduces_in_place(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  if (shares_elements(tensor)) return false;
  return is_reducible_in_place(tensor, op) && (tensor.is_cpu() || tensor.is_contiguous());
}

// The values in a type that core reduces, laid out as it wants them.
at::Tensor values_of(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const at::Tensor values = reducible(tensor, op);
  return values.is_cuda() || shares_elements(values) ? values.contiguous() : values;
}

// `result` becomes the reduction of `input`; they may be one tensor.
Submission allreduce_of(const at::Tensor& input, const at::Tensor& result, const c10d::ReduceOp& op, int size,
                        GroupCall& call) {
  if (is_bitwise(op)) {
    check_bitwise(input);
    const at::Tensor all = at::empty({size * input.numel()}, input.options());
    call.then([result, all, size, op] { bitwise_into(result, all, size, op); }, {all});
    Submission submission = moving(Operation::allgather, input.contiguous(), all);
    sign(submission.request, op);
    sign_sizes(submission.request, input.sizes());
    return submission;
  }
  const at::Tensor values = values_of(input, op);
  if (!reduces_in_place(input, op)) {
    call.then([result, values, op] { restore(result, values, op); }, {values});
    return reducing(Operation::allreduce, values, values, op, input.scalar_type());
  }
  const at::Tensor target = result.is_same(input) ? values : reducible(result, op);
  return reducing(Operation::allreduce, values, target, op, input.scalar_type());
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
    call.then(
        [whole, output, rank] {
          output.copy_(whole.narrow(0, rank * output.numel(), output.numel()).view(output.sizes()));
        },
        {whole});
    return submission;
  }
  const at::Tensor values = reducible(input.contiguous(), op).reshape({-1});
  if (output.is_contiguous() && is_reducible_in_place(output, op))
    return reducing(Operation::reducescatter, values, reducible(output, op).view({-1}), op,
                    input.scalar_type());
  const at::Tensor part = at::empty({values.numel() / size}, values.options());
  const bool complex = output.is_complex();
  call.then(
      [output, part, op, complex] {
        std::vector<std::int64_t> sizes = output.sizes().vec();
        if (complex) sizes.push_back(2);
        restore(output, part.view(sizes), op);
      },
      {part});
  return reducing(Operation::reducescatter, values, part, op, input.scalar_type());
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
  sign_pairs(submission.request, tensor);
  return operations_.begin(std::move(call), std::move(submission));
}

Works ProcessGroup::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "rueda: all_reduce_coalesced takes one tensor at least");
  check_together(tensors, "all_reduce_coalesced");
  GroupCall call = operations_.call(OpType::ALLREDUCE_COALESCED, options);
  call.outputs = tensors;
  call.show(tensors);
  OperationOrder::Submissions group;
  for (const at::Tensor& tensor : tensors) {
    group.push_back(allreduce_of(tensor, tensor, options.reduceOp, size_, call));
    sign_pairs(group.back().request, tensor);
  }
  return operations_.begin(std::move(call), std::move(group));
}

namespace {

// On the root `tensor` becomes the reduction of the tensors of all; the others' stay as they are.
Submission reduce_of(const at::Tensor& tensor, const c10d::ReduceOptions& options, bool is_root, int size,
                     GroupCall& call) {
  const c10d::ReduceOp& op = options.reduceOp;
  if (is_bitwise(op)) return allreduce_of(tensor, is_root ? tensor : at::empty_like(tensor), op, size, call);
  const at::Tensor values = values_of(tensor, op);
  if (is_root && !reduces_in_place(tensor, op))
    call.then([tensor, values, op] { restore(tensor, values, op); }, {values});
  at::Tensor result;
  if (is_root) {
    result = values;
  } else if (values.is_cuda()) {
    result = at::empty_like(values);  // it passes through memory of the others, too
  }
  Submission submission = reducing(Operation::reduce, values, result, op, tensor.scalar_type());
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
  check_together({input, output}, "reduce_scatter_tensor");
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
  const Tensors& list = only_list(inputs, output, size_, "reduce_scatter");
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
  sign_sizes(submission.request, list);
  call.then(
      [all, output, before] { output.copy_(all.narrow(0, before, output.numel()).view(output.sizes())); },
      {all});
  return operations_.begin(std::move(call), std::move(submission));
}

namespace {

// A part of `sparse`; those of all ranks come into the output of `part`.
Submission gathering(const std::shared_ptr<OperationTensors>& part, const at::Tensor& sparse) {
  Submission submission = submission_for(Operation::allgather, "", part);
  sign(submission.request, sparse.scalar_type());
  sign(submission.request, c10d::ReduceOp(c10d::ReduceOp::SUM));
  return submission;
}

// No elements in the tensor's shape, behind two dimensions of 0: so its sizes have to be alike on all ranks.
Submission agreement_on_sizes(const at::Tensor& sparse) {
  std::vector<std::int64_t> sizes{0, 0};
  sizes.insert(sizes.end(), sparse.sizes().begin(), sparse.sizes().end());
  sizes.push_back(sparse.sparse_dim());
  Submission submission =
      moving(Operation::allgather, at::empty({0}, sparse.options().layout(at::kStrided)), at::Tensor());
  submission.input.shape = submission.request.shape = Shape(sizes);
  sign(submission.request, c10d::ReduceOp(c10d::ReduceOp::SUM));
  return submission;
}

}  // namespace

// The elements of all ranks, which are added up where they have one index.
Works ProcessGroup::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK_VALUE(tensors.size() == 1 && tensors[0].layout() == at::kSparse,
                    "rueda: all_reduce takes one sparse COO tensor");
  TORCH_CHECK_VALUE(
      tensors[0].is_cpu() || tensors[0].is_cuda(),
      "rueda: all_reduce takes a sparse tensor of the host or of a CUDA device, and this one is on ",
      tensors[0].device(), "; copy it by cpu()");
  TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM,
                    "rueda: all_reduce of sparse tensors has the reduction SUM only");
  const at::Tensor tensor = tensors[0];
  const at::Tensor own = tensor.coalesce();
  GroupCall call = operations_.call(OpType::_ALLREDUCE_SPARSE, options);
  call.outputs = tensors;
  call.show(tensors);
  const bool complex = tensor.is_complex();
  const auto part = [](const at::Tensor& rows) {
    return std::make_shared<OperationTensors>(rows.contiguous(), at::Tensor());
  };
  const auto indices = part(own.indices().t());
  const auto values = part(complex ? at::view_as_real(own.values()) : own.values());
  OperationOrder::Submissions group;
  group.push_back(agreement_on_sizes(tensor));
  group.push_back(gathering(indices, tensor));
  group.push_back(gathering(values, tensor));
  call.finish = [tensor, indices, values, complex] {
    for (const auto& each : {indices, values}) keep_for_current_stream(each->output.storage());
    const at::Tensor sums = complex ? at::view_as_complex(values->output) : values->output;
    tensor.copy_(at::_sparse_coo_tensor_unsafe(indices->output.t(), sums, tensor.sizes(), tensor.options())
                     .coalesce());
  };
  return operations_.begin(std::move(call), std::move(group));
}

}  // namespace rueda
