// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/arguments.h"

#include <c10/util/Exception.h>

namespace rueda {

void check_on_host(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.defined() && tensor.layout() == at::kStrided, "rueda: ", operation,
                    " takes dense tensors; convert it by to_dense()");
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "rueda: ", operation,
                    " takes tensors of the host, and this one is on ", tensor.device(),
                    "; use init_process_group(\"cpu:rueda,cuda:nccl\")");
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "rueda: ", operation, " takes one tensor, not ", tensors.size());
  check_on_host(tensors[0], operation);
  return tensors[0];
}

const std::vector<at::Tensor>& only_list(const std::vector<std::vector<at::Tensor>>& lists, int size,
                                         const char* operation) {
  TORCH_CHECK_VALUE(lists.size() == 1 && lists[0].size() == static_cast<std::size_t>(size),
                    "rueda: ", operation, " takes one list of ", size, " tensors, one for each rank");
  for (const at::Tensor& tensor : lists[0]) check_on_host(tensor, operation);
  return lists[0];
}

void check_pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                 const char* operation) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "rueda: ", operation, " has ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs");
  for (const at::Tensor& input : inputs) check_on_host(input, operation);
  for (const at::Tensor& output : outputs) check_on_host(output, operation);
}

void check_root(std::int64_t root, int size, const char* operation) {
  TORCH_CHECK_VALUE(root >= 0 && root < size, "rueda: ", operation, " has the invalid root rank ", root,
                    " of ", size);
}

void check_same_type(const at::Tensor& tensor, const at::Tensor& other, const char* operation) {
  TORCH_CHECK_VALUE(tensor.scalar_type() == other.scalar_type(), "rueda: ", operation, " has tensors of ",
                    tensor.scalar_type(), " and of ", other.scalar_type(), "; give all one type");
}

}  // namespace rueda
