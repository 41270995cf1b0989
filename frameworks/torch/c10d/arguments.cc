// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/arguments.h"

#include <c10/util/Exception.h>

namespace rueda {

namespace {

void check_dense(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.defined() && tensor.layout() == at::kStrided, "rueda: ", operation,
                    " takes dense tensors; convert it by to_dense()");
  TORCH_CHECK_VALUE(tensor.is_cpu() || tensor.is_cuda(), "rueda: ", operation,
                    " takes tensors of the host and of CUDA devices, and this one is on ", tensor.device(),
                    "; copy it by cpu()");
}

}  // namespace

void check_together(at::TensorList tensors, const char* operation) {
  for (const at::Tensor& tensor : tensors) {
    check_dense(tensor, operation);
    TORCH_CHECK_VALUE(tensor.device() == tensors[0].device(), "rueda: ", operation, " has a tensor on ",
                      tensors[0].device(), " and one on ", tensor.device(),
                      "; give all on one device, or call it once for each");
  }
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "rueda: ", operation, " takes one tensor, not ", tensors.size());
  check_dense(tensors[0], operation);
  return tensors[0];
}

const std::vector<at::Tensor>& only_list(const std::vector<std::vector<at::Tensor>>& lists,
                                         const at::Tensor& tensor, int size, const char* operation) {
  TORCH_CHECK_VALUE(lists.size() == 1 && lists[0].size() == static_cast<std::size_t>(size),
                    "rueda: ", operation, " takes one list of ", size, " tensors, one for each rank");
  for (const at::Tensor& each : lists[0]) check_together({tensor, each}, operation);
  return lists[0];
}

void check_pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                 const char* operation) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "rueda: ", operation, " has ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs");
  TORCH_CHECK_VALUE(!inputs.empty(), "rueda: ", operation, " takes at least one tensor");
  check_together(inputs, operation);
  for (const at::Tensor& output : outputs) check_together({inputs[0], output}, operation);
}

void check_root(std::int64_t root, int size, const char* operation) {
  TORCH_CHECK_VALUE(root >= 0 && root < size, "rueda: ", operation, " has the invalid root rank ", root,
                    " of ", size);
}

void check_tag(int tag, const char* operation) {
  TORCH_CHECK_VALUE(tag >= 0, "rueda: ", operation, " has the tag ", tag, "; give 0 or more");
}

void check_same_type(const at::Tensor& tensor, const at::Tensor& other, const char* operation) {
  TORCH_CHECK_VALUE(tensor.scalar_type() == other.scalar_type(), "rueda: ", operation, " has tensors of ",
                    tensor.scalar_type(), " and of ", other.scalar_type(), "; give all one type");
}

void check_size_of_own(const at::Tensor& of_list, const at::Tensor& tensor, int rank, const char* operation) {
  TORCH_CHECK_VALUE(of_list.numel() == tensor.numel(), "rueda: ", operation,
                    " has invalid tensor size at index ", rank, ", this rank's own: the list has ",
                    of_list.sizes(), " there, and the tensor is ", tensor.sizes());
}

}  // namespace rueda
