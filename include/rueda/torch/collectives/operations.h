// SPDX-License-Identifier: Apache-2.0
// Collective operations on LibTorch tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda {

struct OperationTensors;

// Purpose: a submitted operation and the tensor it makes. Copyable; any thread may wait, many at once. May be
// dropped: the operation runs to its end and keeps its tensors for that long.
class TensorHandle {
 public:
  // What the operations below make.
  TensorHandle(Handle handle, std::shared_ptr<OperationTensors> tensors)
      : handle_(std::move(handle)), tensors_(std::move(tensors)) {}

  // Whether the operation has completed, well or not.
  bool done() const { return handle_.done(); }
  // The result, when the operation has completed; throws as Handle::wait.
  at::Tensor wait() const;
  // As wait, without the exception and the result.
  Status wait_status() const;
  // The result, when the operation has completed well.
  const at::Tensor& output() const;
  // After wait() of an alltoall: how many rows came from each rank.
  const std::vector<std::int64_t>& received_splits() const { return handle_.received_splits(); }
  // As Handle's, after wait() of an allreduce with Reduction::measure.
  double share_of_square_sum() const { return handle_.share_of_square_sum(); }

 private:
  Handle handle_;
  std::shared_ptr<OperationTensors> tensors_;
};

// The operations of rueda/rueda.h. `name` pairs the ranks' calls. Any strides will do, and ranks may differ
// in them. Tensors on a CUDA device are read when this thread's current stream there has come to the call,
// and the result is there for what the stream that is current at wait() is given after it; the host waits for
// neither. They have no gaps where they are written. No operation is differentiable. A trailing underscore:
// the result replaces the tensor's values. Each throws InvalidArgument for a tensor that Rueda cannot move.

// The reduction over all ranks, laid out as `tensor` is.
TensorHandle allreduce_async(const at::Tensor& tensor, std::string name, Reduction reduction = {},
                             Scope scope = {});
at::Tensor allreduce(const at::Tensor& tensor, std::string name, Reduction reduction = {}, Scope scope = {});
TensorHandle allreduce_async_(const at::Tensor& tensor, std::string name, Reduction reduction = {},
                              Scope scope = {});
void allreduce_(const at::Tensor& tensor, std::string name, Reduction reduction = {}, Scope scope = {});

// The ranks' tensors one after another along the first dimension, in which they may differ.
TensorHandle allgather_async(const at::Tensor& tensor, std::string name, Scope scope = {});
at::Tensor allgather(const at::Tensor& tensor, std::string name, Scope scope = {});

// Rank root's tensor. Every rank gives one of the same shape and dtype.
TensorHandle broadcast_async(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});
at::Tensor broadcast(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});
TensorHandle broadcast_async_(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});
void broadcast_(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});

// Rows of `tensor` go to rank 0, 1, ... in the numbers that `splits` gives (empty: equally).
struct AlltoallResult {
  at::Tensor output;                          // the rows that came, in rank order
  std::vector<std::int64_t> received_splits;  // how many came from each rank
};
TensorHandle alltoall_async(const at::Tensor& tensor, std::vector<std::int64_t> splits, std::string name,
                            Scope scope = {});
AlltoallResult alltoall(const at::Tensor& tensor, std::vector<std::int64_t> splits, std::string name,
                        Scope scope = {});

// This rank's share of the rows of the reduction; the first ranks get the remainder.
TensorHandle reducescatter_async(const at::Tensor& tensor, std::string name, Reduction reduction = {},
                                 Scope scope = {});
at::Tensor reducescatter(const at::Tensor& tensor, std::string name, Reduction reduction = {},
                         Scope scope = {});

// Returns when every rank has called it.
void barrier(Scope scope = {});

}  // namespace rueda
