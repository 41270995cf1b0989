// SPDX-License-Identifier: Apache-2.0
// Tensors on devices by NCCL.
#pragma once

#include <memory>
#include <string>

#include "core/engine/backend.h"
#include "ops/algorithms/link_backend.h"
#include "ops/cuda/staged_backend.h"
#include "ops/nccl/nccl_state.h"

namespace rueda {

// Purpose: the backend of Plans that NCCL can carry out as they are meant. The ranks agree by `link`. A
// process set that turns out not to be able to goes by way of the host. Owned by the background thread;
// `link` outlives it.
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
  bool rings_doorbell() const override { return false; }

 private:
  LinkBackend& link_;
  std::shared_ptr<NcclState> state_;
  std::shared_ptr<DeviceSides> sides_;
  StagedBackend staged_;
  std::string name_;
};

}  // namespace rueda
