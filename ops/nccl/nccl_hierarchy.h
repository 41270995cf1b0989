// SPDX-License-Identifier: Apache-2.0
// Allreduces of tensors on devices of several hosts: by NCCL inside each, by messages between them.
#pragma once

#include <memory>
#include <string>

#include "core/engine/backend.h"
#include "ops/algorithms/link_backend.h"
#include "ops/cuda/staged_backend.h"
#include "ops/link/host_groups.h"
#include "ops/nccl/nccl_state.h"

namespace rueda {

// Purpose: reduces inside each host by NCCL, so that each member there has a share of the sum; members of
// equal index on all hosts allreduce theirs by `link`, through pinned memory; NCCL gathers the shares again.
// Of n bytes on h hosts with k members each a rank sends and receives 2(h-1)/h n/k. For floating point, where
// every host has as many members, two at least, and rank 0 wants it (RUEDA_NCCL_HIERARCHY). Owned by the
// background thread; `link` outlives it.
class NcclHierarchyBackend final : public Backend {
 public:
  NcclHierarchyBackend(LinkBackend& link, std::shared_ptr<NcclState> state,
                       std::shared_ptr<DeviceSides> sides, std::shared_ptr<Hosts> hosts, bool wanted)
      : link_(link),
        state_(std::move(state)),
        sides_(sides),
        hosts_(std::move(hosts)),
        wanted_(wanted),
        staged_(link, std::move(sides), state_->rank()),
        name_("nccl-hierarchy-" + std::string(link.name())) {}

  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::cuda; }
  bool can_run(const Plan& plan) const override;
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  bool rings_doorbell() const override { return false; }

 private:
  LinkBackend& link_;
  std::shared_ptr<NcclState> state_;
  std::shared_ptr<DeviceSides> sides_;
  std::shared_ptr<Hosts> hosts_;
  bool wanted_;
  StagedBackend staged_;
  std::string name_;
};

}  // namespace rueda
