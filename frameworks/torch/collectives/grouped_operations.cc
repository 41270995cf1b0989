// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/collectives/grouped_operations.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "core/engine/runtime.h"
#include "core/submission_arguments.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

enum class Output { new_like_input, input_itself, made_when_known };

at::Tensor output_for(const at::Tensor& tensor, Output output, const std::string& name) {
  check_movable(tensor, name);  // refuses also a tensor that cannot be allocated
  switch (output) {
    case Output::new_like_input: return new_output_like(tensor);
    case Output::input_itself: return tensor;
    case Output::made_when_known: break;
  }
  return {};
}

std::vector<TensorHandle> submit_group(Operation operation, const std::vector<at::Tensor>& tensors,
                                       const std::string& name, Output output,
                                       const std::optional<Reduction>& reduction, const Scope& scope) {
  const at::NoGradGuard no_grad;
  std::vector<std::shared_ptr<OperationTensors>> owners;
  std::vector<Submission> group;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::string member = fmt::format("{}.{}", name, i);
    owners.push_back(std::make_shared<OperationTensors>(tensors[i], output_for(tensors[i], output, member),
                                                        output == Output::new_like_input));
    Submission submission = submission_for(operation, std::move(member), owners.back());
    if (reduction) set_reduction(submission.request, *reduction);
    set_scope(submission, scope);
    group.push_back(std::move(submission));
  }
  if (group.empty()) return {};
  std::vector<Handle> handles = scope.runtime().submit_group(std::move(group));
  std::vector<TensorHandle> results;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (output == Output::input_itself) mark_changed(tensors[i]);
    results.emplace_back(std::move(handles[i]), std::move(owners[i]));
  }
  return results;
}

}  // namespace

std::vector<TensorHandle> grouped_allreduce_async(const std::vector<at::Tensor>& tensors,
                                                  const std::string& name, Reduction reduction, Scope scope) {
  return submit_group(Operation::allreduce, tensors, name, Output::new_like_input, reduction, scope);
}

std::vector<TensorHandle> grouped_allreduce_async_(const std::vector<at::Tensor>& tensors,
                                                   const std::string& name, Reduction reduction,
                                                   Scope scope) {
  return submit_group(Operation::allreduce, tensors, name, Output::input_itself, reduction, scope);
}

std::vector<TensorHandle> grouped_allgather_async(const std::vector<at::Tensor>& tensors,
                                                  const std::string& name, Scope scope) {
  return submit_group(Operation::allgather, tensors, name, Output::made_when_known, std::nullopt, scope);
}

std::vector<TensorHandle> grouped_reducescatter_async(const std::vector<at::Tensor>& tensors,
                                                      const std::string& name, Reduction reduction,
                                                      Scope scope) {
  return submit_group(Operation::reducescatter, tensors, name, Output::made_when_known, reduction, scope);
}

}  // namespace rueda
