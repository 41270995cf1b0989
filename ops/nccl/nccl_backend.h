// SPDX-License-Identifier: Apache-2.0
// Tensors on devices by NCCL.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "core/engine/backend.h"
#include "ops/cuda/staged_backend.h"
#include "ops/link_backend.h"
#include "ops/nccl/nccl_group.h"

namespace rueda {

// Purpose: the groups of a rank, and the order in which its operations are given to the device: that of their
// Plans, the same on all ranks, or two could wait for each other there. Shared by the backends of NCCL,
// whichever link ranks agree by; the coordinator's.
class NcclState {
 public:
  NcclState(NcclOwn own, Rank rank) : own_(std::move(own)), rank_(rank) {}

  const NcclFunctions& functions() const { return own_.nccl().functions; }
  bool usable() const { return own_.nccl().problem.empty(); }
  NcclGroup& group(const RankSet& members);
  // Whether its ranks have found out that they cannot.
  bool refused(const RankSet& members) const;
  Rank rank() const { return rank_; }

  // That of the last tensor; for what stands in for a rank that has joined.
  int last_device() const { return last_device_; }
  void set_last_device(int device) { last_device_ = device; }

  void enter(std::uint64_t plan) { order_.push_back(plan); }
  bool is_next(std::uint64_t plan) const { return order_.front() == plan; }
  void leave(std::uint64_t plan) { std::erase(order_, plan); }

  void tend(bool failed);

 private:
  struct InOrder {
    bool operator()(const RankSet& a, const RankSet& b) const { return to_string(a) < to_string(b); }
  };
  NcclOwn own_;
  Rank rank_;
  std::map<RankSet, std::unique_ptr<NcclGroup>, InOrder> groups_;
  std::deque<std::uint64_t> order_;
  int last_device_ = 0;
};

// Purpose: the backend of Plans that NCCL can carry out as they are meant, whose ranks agree on what they
// have to by `link`. A process set that turns out not to be able to goes by way of the host. Owned by the
// coordinator thread; `link` outlives it.
class NcclBackend final : public Backend {
 public:
  NcclBackend(LinkBackend& link, std::shared_ptr<NcclState> state, std::shared_ptr<DeviceSides> sides)
      : link_(link),
        state_(std::move(state)),
        sides_(sides),
        staged_(link, std::move(sides), state_->rank()),
        name_("nccl-" + std::string(link.name())) {}

  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::cuda; }
  bool can_run(const Plan& plan) const override;
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  void tend(bool failed) override { state_->tend(failed); }
  bool rings_bell() const override { return false; }

 private:
  LinkBackend& link_;
  std::shared_ptr<NcclState> state_;
  std::shared_ptr<DeviceSides> sides_;
  StagedBackend staged_;
  std::string name_;
};

}  // namespace rueda
