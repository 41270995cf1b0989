// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of a group.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <map>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/base/time.h"
#include "frameworks/torch/c10d/messages/rank_pair.h"
#include "frameworks/torch/c10d/operations/pending_operation.h"

namespace rueda {

// Purpose: a RankPair for each rank with which this one exchanges messages, made with the first one. Any
// thread; guarded by the mutex.
class PointToPoint {
 public:
  PointToPoint(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  // Contiguous tensors, which they keep alive. `start_timeout`: for the other rank's first message.
  PendingOperation send(const at::Tensor& tensor, int to, int tag, Duration start_timeout);
  PendingOperation receive(const at::Tensor& tensor, int from, int tag, Duration start_timeout);

  // No more messages; does not wait.
  void end();
  // After that: whether all is over on the other ranks, too, within such a time.
  bool over_within(Duration longest);
  void abort();

 private:
  RankPair& pair_with(int peer, Duration start_timeout);

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<RankPair>> pairs_;
};

}  // namespace rueda
