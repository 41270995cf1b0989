// SPDX-License-Identifier: Apache-2.0
// Gradients of DistributedDataParallel that are reduced where they lie.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "frameworks/torch/c10d/process_group.h"

namespace rueda {

// Purpose: a communication hook that averages each bucket. Before the first time it moves the bucket to
// memory that the ranks of a host share, and gradients that look into the bucket move with it. Owned by
// c10d's Reducer. Used by the threads that run the backward pass, one at a time.
class SharedBuckets final : public c10d::CppCommHookInterface<c10::intrusive_ptr<ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;  // NOLINT: c10d's name

 private:
  void share(c10::StorageImpl& storage);

  bool has_room_ = true;  // no block of shared memory was refused
};

}  // namespace rueda
