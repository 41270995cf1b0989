// SPDX-License-Identifier: Apache-2.0
// Tensors on devices by way of the host's memory: what works wherever the host's tensors do.
#pragma once

#include <memory>
#include <string>

#include "core/engine/backend.h"
#include "ops/cuda/device_sides.h"

namespace rueda {

// Purpose: runs a Plan on devices as the same Plan on copies in pinned memory, by the backend `below`, which
// outlives it. Owned by the background thread.
class StagedBackend final : public Backend {
 public:
  StagedBackend(Backend& below, std::shared_ptr<DeviceSides> sides, Rank rank)
      : below_(below), sides_(std::move(sides)), rank_(rank), name_("cuda-" + std::string(below.name())) {}

  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::cuda; }
  // A graph cannot hold what the host does.
  bool can_run(const Plan& plan) const override { return plan.capture == 0 && below_.can_run(plan); }
  void decide(Plan& plan) const override { below_.decide(plan); }
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  bool rings_doorbell() const override { return false; }  // devices do not

 private:
  Backend& below_;
  std::shared_ptr<DeviceSides> sides_;
  Rank rank_;
  std::string name_;
};

}  // namespace rueda
