// SPDX-License-Identifier: Apache-2.0
// The state that the backends of NCCL share.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "ops/algorithms/link_backend.h"
#include "ops/nccl/nccl_group.h"
#include "ops/nccl/nccl_launch.h"

namespace rueda {

// Purpose: the groups of a rank, and the order in which its operations are given to the device: that of their
// Plans, the same on all ranks, or two could wait for each other there. Shared by the backends of NCCL,
// whichever link ranks agree by; the background thread's.
class NcclState {
 public:
  NcclState(NcclOwn own, Rank rank) : own_(std::move(own)), rank_(rank) {}

  const NcclFunctions& functions() const { return own_.nccl().functions; }
  bool usable() const { return own_.nccl().problem.empty(); }
  NcclGroup& group(const RankSet& members, NcclReach reach);
  // Whether its ranks have found out that they cannot.
  bool refused(const RankSet& members, NcclReach reach) const;
  Rank rank() const { return rank_; }

  // That of the last tensor; for what stands in for a rank that has joined. None before the first.
  std::optional<int> last_device() const { return last_device_; }
  void set_last_device(int device) { last_device_ = device; }

  void enter(std::uint64_t plan) { order_.push_back(plan); }
  bool is_next(std::uint64_t plan) const { return order_.front() == plan; }
  void leave(std::uint64_t plan) { std::erase(order_, plan); }

  void tend(bool failed);

 private:
  using Key = std::pair<Bytes, NcclReach>;  // the members as they are sent
  static Key key_of(const RankSet& members, NcclReach reach);

  NcclOwn own_;
  Rank rank_;
  std::map<Key, std::unique_ptr<NcclGroup>> groups_;
  std::deque<std::uint64_t> order_;
  std::optional<int> last_device_;
};

}  // namespace rueda
