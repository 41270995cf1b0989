// SPDX-License-Identifier: Apache-2.0
// Rueda as a backend of torch.distributed.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "frameworks/torch/c10d/group_backend.h"
#include "frameworks/torch/c10d/monitored_barrier.h"

namespace rueda {

// Purpose: the operations of one group of c10d. The ranks of the group are a job of their own. Operations
// belong together by their order. Any thread may call it.
class ProcessGroup final : public GroupBackend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  // Waits until all ranks of the group are there. Throws c10::DistBackendError. Without Python's lock.
  ProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, GroupNames names,
               std::chrono::milliseconds timeout, const StartGroup& start = &ops::start_group);
  ~ProcessGroup() override;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // NOLINTBEGIN(readability-identifier-naming): names of c10d's
  Works broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Works allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Works allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Works allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Works reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Works allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Works _allgather_base(at::Tensor& output, at::Tensor& input,
                        const c10d::AllgatherOptions& options) override;
  Works allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                            const c10d::AllgatherOptions& options) override;
  Works allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) override;
  Works gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Works scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  Works reduce_scatter(Tensors& outputs, TensorLists& inputs,
                       const c10d::ReduceScatterOptions& options) override;
  Works _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                             const c10d::ReduceScatterOptions& options) override;
  Works reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                        const c10d::ReduceScatterOptions& options) override;
  Works alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                      std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  Works alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Works send(Tensors& tensors, int to, int tag) override;
  Works recv(Tensors& tensors, int from, int tag) override;
  Works recvAnysource(Tensors& tensors, int tag) override;
  Works barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool names_all) override;
  // NOLINTEND(readability-identifier-naming)

 private:
  // Behind whose work a barrier waits; none: the host's only.
  std::optional<at::Device> device_of_barrier(const c10d::BarrierOptions& options) const;

  MonitoredBarrier monitored_barrier_;
};

}  // namespace rueda
