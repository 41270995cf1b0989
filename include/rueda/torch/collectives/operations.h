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

// Purpose: a submitted operation and its result. Copyable. Any number of threads may wait for it. It may be
// dropped: the operation then runs to its end and keeps its tensors until then.
class TensorHandle {
 public:
  // The operations below make it.
  TensorHandle(Handle handle, std::shared_ptr<OperationTensors> tensors)
      : handle_(std::move(handle)), tensors_(std::move(tensors)) {}

  // Tells whether the operation has completed or failed.
  bool done() const { return handle_.done(); }
  // Waits, and returns the result. Throws the exceptions of Handle::wait.
  at::Tensor wait() const;
  // Waits, and returns the Status. Does not throw it.
  Status wait_status() const;
  // Returns the result of an operation that has succeeded.
  const at::Tensor& output() const;
  // Returns the numbers of rows received from each rank. Valid after wait() of an alltoall.
  const std::vector<std::int64_t>& received_splits() const { return handle_.received_splits(); }
  // Returns Handle::share_of_square_sum(). Valid after wait() of an allreduce with Reduction::measure.
  double share_of_square_sum() const { return handle_.share_of_square_sum(); }

 private:
  Handle handle_;
  std::shared_ptr<OperationTensors> tensors_;
};

// These are the operations of rueda/rueda.h. `name` pairs the calls of the ranks. Tensors may have any
// strides, and ranks may differ in them. A tensor that is written must have no gaps. A function with a
// trailing underscore writes the result into its tensor. No operation is differentiable. Each function throws
// InvalidArgument for a tensor that Rueda cannot move.
//
// A CUDA tensor is read in the order of the stream that is current at the call. The stream that is current
// at wait() sees the result. The host does not wait for either stream.

// Reduces `tensor` over all ranks. The result has its strides.
TensorHandle allreduce_async(const at::Tensor& tensor, std::string name, Reduction reduction = {},
                             Scope scope = {});
at::Tensor allreduce(const at::Tensor& tensor, std::string name, Reduction reduction = {}, Scope scope = {});
TensorHandle allreduce_async_(const at::Tensor& tensor, std::string name, Reduction reduction = {},
                              Scope scope = {});
void allreduce_(const at::Tensor& tensor, std::string name, Reduction reduction = {}, Scope scope = {});

// Concatenates the ranks' tensors along the first dimension. That dimension may differ between ranks.
TensorHandle allgather_async(const at::Tensor& tensor, std::string name, Scope scope = {});
at::Tensor allgather(const at::Tensor& tensor, std::string name, Scope scope = {});

// Returns the tensor of rank `root`. All ranks pass the same shape and dtype.
TensorHandle broadcast_async(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});
at::Tensor broadcast(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});
TensorHandle broadcast_async_(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});
void broadcast_(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});

// Sends `tensor` to rank `destination` of the job, which calls recv_async() with a tensor of the same shape
// and dtype. recv_async() writes into its tensor. `name` pairs the two calls; no other rank takes part.
// Messages of the other direction have names of their own. A message begins when both ranks have called. So
// two ranks that send to each other call send_async() and recv_async() before they wait.
TensorHandle send_async(const at::Tensor& tensor, Rank destination, std::string name, Scope scope = {});
void send(const at::Tensor& tensor, Rank destination, std::string name, Scope scope = {});
TensorHandle recv_async(const at::Tensor& tensor, Rank source, std::string name, Scope scope = {});
void recv(const at::Tensor& tensor, Rank source, std::string name, Scope scope = {});

// The result of an alltoall.
struct AlltoallResult {
  at::Tensor output;                          // the received rows, in rank order
  std::vector<std::int64_t> received_splits;  // rows received from each rank
};
// Sends the first splits[0] rows of `tensor` to rank 0, the next splits[1] to rank 1, and so on. Empty
// `splits` give equal parts.
TensorHandle alltoall_async(const at::Tensor& tensor, std::vector<std::int64_t> splits, std::string name,
                            Scope scope = {});
AlltoallResult alltoall(const at::Tensor& tensor, std::vector<std::int64_t> splits, std::string name,
                        Scope scope = {});

// Reduces `tensor` over all ranks. Rank `root` gets the result, with the strides of its tensor. The others
// get an undefined tensor, and theirs stay as they are.
TensorHandle reduce_async(const at::Tensor& tensor, Rank root, std::string name, Reduction reduction = {},
                          Scope scope = {});
at::Tensor reduce(const at::Tensor& tensor, Rank root, std::string name, Reduction reduction = {},
                  Scope scope = {});
TensorHandle reduce_async_(const at::Tensor& tensor, Rank root, std::string name, Reduction reduction = {},
                           Scope scope = {});
void reduce_(const at::Tensor& tensor, Rank root, std::string name, Reduction reduction = {},
             Scope scope = {});

// Concatenates the ranks' tensors along the first dimension, on rank `root`. The others get a tensor without
// rows. The first dimension may differ between ranks.
TensorHandle gather_async(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});
at::Tensor gather(const at::Tensor& tensor, Rank root, std::string name, Scope scope = {});

// Gives each rank its rows of the tensor of rank `root`: the first splits[0] rows to rank 0, and so on. Empty
// `splits` give equal parts. The others pass a tensor without rows, of the same dtype and other dimensions.
TensorHandle scatter_async(const at::Tensor& tensor, Rank root, std::vector<std::int64_t> splits,
                           std::string name, Scope scope = {});
at::Tensor scatter(const at::Tensor& tensor, Rank root, std::vector<std::int64_t> splits, std::string name,
                   Scope scope = {});

// Reduces `tensor`, and gives this rank its rows of the result. If the rows do not divide by the ranks, the
// first ranks get one more.
TensorHandle reducescatter_async(const at::Tensor& tensor, std::string name, Reduction reduction = {},
                                 Scope scope = {});
at::Tensor reducescatter(const at::Tensor& tensor, std::string name, Reduction reduction = {},
                         Scope scope = {});

// Returns after every rank of the scope has called it.
void barrier(Scope scope = {});

}  // namespace rueda
