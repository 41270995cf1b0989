// SPDX-License-Identifier: Apache-2.0
// All of a backend of c10d's that is no operation.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "frameworks/torch/c10d/completion_hook.h"
#include "frameworks/torch/c10d/group_operations.h"
#include "frameworks/torch/c10d/tensor_pool.h"

namespace rueda {

// Purpose: the life of a group: its settings, its end, groups that come from it, its memory. Its ranks are a
// job of their own. Any thread may call it.
class GroupBackend : public c10d::Backend {
 public:
  using Works = c10::intrusive_ptr<c10d::Work>;

  // Waits until all ranks of the group are there. Throws c10::DistBackendError. Without Python's lock.
  GroupBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, GroupNames names,
               std::chrono::milliseconds timeout, const StartGroup& start);

  // NOLINTBEGIN(readability-identifier-naming): names of c10d's
  const std::string getBackendName() const override { return operations_.names().backend; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override { operations_.set_timeout(timeout); }
  void setSequenceNumberForGroup() override {}  // all ranks count from 1
  std::uint64_t getSequenceNumberForGroup() override { return operations_.last_number(); }
  c10d::ErrorType getError() override;
  void abort() override { operations_.abort(); }
  void shutdown() override { operations_.shutdown(); }

  // Between these, operations of the calling thread begin and it waits for none; the Work of the second is
  // that of all. They work, and yet it says no: else batch_isend_irecv() keeps its state in the group, and an
  // exception there, or another thread, makes torch hold back all later operations of that group.
  bool supportsCoalescing() const override { return false; }
  void startCoalescing() override { operations_.start_coalescing(); }
  Works endCoalescing() override;

  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

  // The ranks that are left begin a group of their own; the others need not be there. SHRINK_ABORT in
  // `flags`: operations in flight fail before.
  bool supportsShrinking() const override { return true; }
  c10::intrusive_ptr<Backend> shrink(const std::vector<std::int64_t>& excluded, int flags,
                                     const c10::intrusive_ptr<Options>& options) override;

  // The function hears of each operation that ends, with the time since its begin.
  void registerOnCompletionHook(CompletionHook::Function&& hook) override;
  void waitForPendingWorks() override { operations_.wait_for_completion_hook(); }
  void enableCollectivesTiming() override {}  // times are taken where a hook wants them

  // Takes the host's device, which has no index; on CUDA devices torch's own allocator is as good.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;
  // NOLINTEND(readability-identifier-naming)

  // Memory that the ranks of this host share. Null if they share none, or have too little.
  std::shared_ptr<std::byte> shared_memory(std::size_t bytes) { return operations_.shared_memory(bytes); }

 protected:
  GroupOperations operations_;

 private:
  // Converts ranks of the group.
  std::vector<std::uint64_t> ranks_of_job(const std::vector<int>& ranks) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  int shrinks_ = 0;  // how often shrink() was called
  TensorPool pool_;
};

// Another group. Its ranks have the store for themselves.
c10::intrusive_ptr<c10d::Backend> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                     int size, GroupNames names,
                                                     std::chrono::milliseconds timeout);

}  // namespace rueda
